// SPDX-License-Identifier: Apache-2.0
// How ndctl fails: what is wrong, what to do next, and which exit code says so.
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
  kNotFound = 3,  // No such object, or it is not in a state for this.
  kUnreachable = 4,
  kPermission = 5,
  kTimeout = 6,
};

// The name in JSON: "NOT_FOUND", ...
const char* Name(Exit exit);

struct Error {
  Exit exit = Exit::kFailed;
  std::string message;  // What is wrong; empty: the output said it, only the exit code is left to say.
  std::string hint;     // The next step; may be empty.
  std::string status;   // Name of the ND status behind it; may be empty.
};

// Nothing means success.
using Failure = std::optional<Error>;

// The failure that an ND status is for the caller of ndctl; `what` says what was tried.
Failure FailureOf(const Status& status, const std::string& what);

// "ndctl: cause\n  next step\n", or one JSON object in one line.
std::string FormatError(const Error& error, bool json);

}  // namespace nd::cli
