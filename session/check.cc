// SPDX-License-Identifier: Apache-2.0
#include "session/check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "session/limits.h"

namespace nd::session {
namespace {

Status Wrong(std::string why) {
  return {StatusCode::kInvalidParameter, std::move(why)};
}

Status CheckStatus(const Status& status) {
  if (!IsKnown(status.code())) return Wrong("a status has a code that does not exist");
  if (status.detail() > Detail::kStaleConnection) return Wrong("a status has a detail that does not exist");
  if (status.message().size() > kMaxSentence) {
    return Wrong("a status has a sentence of more than " + std::to_string(kMaxSentence) + " bytes");
  }
  return Status::Ok();
}

Status CheckReport(const TransportReportOp& report) {
  using What = TransportReportOp::What;
  if (report.what == What::kUnspecified || report.what > What::kPrepared) {
    return Wrong("a transport report has a kind that this broker does not know");
  }
  if (report.reason > DisconnectReason::kEstablishmentFailed) {
    return Wrong("a transport report has a reason that does not exist");
  }
  return CheckStatus(report.status);
}

bool IsApplicationName(const std::string& name) {
  return name.size() <= kMaxApplicationName && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                  c == '_' || c == '-';
         });
}

}  // namespace

Status CheckOperation(const ClientMessage& message) {
  if (std::holds_alternative<Hello>(message.content)) {
    return Status(StatusCode::kInvalidDeviceRequest,
                  "Hello is allowed only as the first message of a stream");
  }
  const Operation* const operation = std::get_if<Operation>(&message.content);
  if (operation == nullptr) {
    return Status(StatusCode::kNotSupported,
                  "the message has no operation that protocol version 1 knows; is the client newer than the "
                  "broker?");
  }
  if (const auto* report = std::get_if<TransportReportOp>(operation)) {
    return CheckReport(*report);
  }
  return message.op_id == 0 ? Wrong("op_id must not be 0") : Status::Ok();
}

Result<Operation> TakeOperation(ClientMessage message) {
  if (Status bad = CheckOperation(message); !bad.ok()) return bad;
  return std::get<Operation>(std::move(message.content));
}

Result<Hello> TakeHello(ClientMessage message) {
  Hello* hello = std::get_if<Hello>(&message.content);
  if (hello == nullptr) {
    return Status(StatusCode::kInvalidDeviceRequest, "the first message of a session must be Hello");
  }
  if (hello->token.size() != kTokenBytes) {
    return Status(StatusCode::kAccessDenied, "the token must be the " + std::to_string(kTokenBytes) +
                                                 " bytes that the fd lane delivered, not " +
                                                 std::to_string(hello->token.size()));
  }
  if (hello->min_version > kProtocolVersion || hello->max_version < kProtocolVersion) {
    return Status(StatusCode::kNotSupported, "the client speaks protocol versions " +
                                                 std::to_string(hello->min_version) + " to " +
                                                 std::to_string(hello->max_version) + ", this broker only " +
                                                 std::to_string(kProtocolVersion));
  }
  if (!IsApplicationName(hello->application)) {
    return Wrong("the application's name may only have 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  if (message.op_id == 0) return Wrong("op_id must not be 0");
  return std::move(*hello);
}

}  // namespace nd::session
