// SPDX-License-Identifier: Apache-2.0
// The sentence of an error number, with the same words on every system.
#pragma once

#include <string>

namespace nd::os {

// Any thread.
std::string ErrorText(int error);

}  // namespace nd::os
