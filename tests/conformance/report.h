// SPDX-License-Identifier: Apache-2.0
// The report of a run that a crash does not lose.
#pragma once

#include <memory>
#include <string>

namespace nd::conformance {

// Writes the result of each case to `path` when the case ends; a case that is running counts as failed. At
// the end gtest replaces the file by its own report (--gtest_output=json), so this report remains only when
// the program ended early. Each line has the form of a whole report.
void KeepReport(const std::string& path);

}  // namespace nd::conformance
