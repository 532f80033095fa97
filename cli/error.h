// SPDX-License-Identifier: Apache-2.0
// Errors of ndctl: the problem, the next step and the exit code.
#pragma once

#include <optional>
#include <string>

#include "nd/status.h"

namespace nd::cli {

// Documented in docs/ndctl.md; scripts depend on the numbers.
enum class Exit : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotFound = 3,  // No such object, or its state does not allow the operation.
  kUnreachable = 4,
  kPermission = 5,
  kTimeout = 6,
};

// The name in JSON: "NOT_FOUND", ...
const char* Name(Exit exit);

struct Error {
  Exit exit = Exit::kFailed;
  std::string message;  // The problem; empty when the output has it already.
  std::string hint;     // The next step for the user; may be empty.
  std::string status;   // Name of the ND status behind it; may be empty.
};

// No value means success.
using Failure = std::optional<Error>;

// Converts a status to an error of ndctl; `what` names the operation.
Failure FailureOf(const Status& status, const std::string& what);

// "ndctl: cause\n  next step\n", or one JSON object in one line.
std::string FormatError(const Error& error, bool json);

}  // namespace nd::cli
