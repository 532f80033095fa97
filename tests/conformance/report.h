// SPDX-License-Identifier: Apache-2.0
// The report of a run that a crash does not lose.
#pragma once

#include <memory>
#include <string>

namespace nd::conformance {

// Writes the result of each case into `path` as soon as it is known, and the case that runs as failed until
// it ends. gtest replaces the file by its own report (--gtest_output=json) at the end, so what this wrote
// remains only when the program did not get there. Each line has the shape of a whole report.
void KeepReport(const std::string& path);

}  // namespace nd::conformance
