// SPDX-License-Identifier: Apache-2.0
// Maps statuses to exit codes.
#include "cli/error.h"

#include "cli/value.h"

namespace nd::cli {

const char* Name(Exit exit) {
  switch (exit) {
    case Exit::kOk:
      return "OK";
    case Exit::kFailed:
      return "FAILED";
    case Exit::kUsage:
      return "USAGE";
    case Exit::kNotFound:
      return "NOT_FOUND";
    case Exit::kUnreachable:
      return "UNREACHABLE";
    case Exit::kPermission:
      return "PERMISSION_DENIED";
    case Exit::kTimeout:
      return "TIMEOUT";
  }
  return "FAILED";
}

Failure FailureOf(const Status& status, const std::string& what) {
  if (status.ok()) return std::nullopt;
  Error error;
  error.status = std::string(nd::Name(status.code()));
  error.message = what + ": " + status.ToString();
  switch (status.code()) {
    case StatusCode::kInvalidHandle:
    case StatusCode::kInvalidDeviceState:
    case StatusCode::kConnectionInvalid:
    case StatusCode::kInvalidParameter:
    case StatusCode::kAddressNotAssociated:
      error.exit = Exit::kNotFound;
      break;
    case StatusCode::kAccessDenied:
      error.exit = Exit::kPermission;
      break;
    case StatusCode::kIoTimeout:
      error.exit = Exit::kTimeout;
      break;
    case StatusCode::kDeviceNotReady:
      error.exit = status.detail() == Detail::kBrokerUnreachable ? Exit::kUnreachable : Exit::kFailed;
      break;
    default:
      error.exit = status.detail() == Detail::kBrokerUnreachable ? Exit::kUnreachable : Exit::kFailed;
  }
  return error;
}

std::string FormatError(const Error& error, bool json) {
  if (error.message.empty()) return {};
  if (!json) {
    std::string out = "ndctl: " + error.message + "\n";
    if (!error.hint.empty()) out += "  " + error.hint + "\n";
    return out;
  }
  Value body = Value::MakeObject();
  body.Set("code", Name(error.exit))
      .Set("exit_code", static_cast<int>(error.exit))
      .Set("message", error.message);
  if (!error.hint.empty()) body.Set("hint", error.hint);
  if (!error.status.empty()) body.Set("status", error.status);
  Value out = Value::MakeObject();
  out.Set("apiVersion", "ndbroker/v1").Set("kind", "Error").Set("error", std::move(body));
  return out.ToJson(0) + "\n";
}

}  // namespace nd::cli
