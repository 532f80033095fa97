// SPDX-License-Identifier: Apache-2.0
#include "session/check.h"

#include <gtest/gtest.h>

#include "session/limits.h"

namespace nd::session {
namespace {

StatusCode CodeOf(TransportReportOp report) {
  return TakeOperation({0, Operation(std::move(report))}).code();
}

TEST(SessionCheck, RefusesMessagesWithoutAnOperation) {
  EXPECT_EQ(TakeOperation({1, {}}).code(), StatusCode::kNotSupported);
  EXPECT_EQ(TakeOperation({1, Hello{}}).code(), StatusCode::kInvalidDeviceRequest);
  EXPECT_EQ(TakeOperation({0, Operation(ListAdaptersOp{})}).code(), StatusCode::kInvalidParameter);
  EXPECT_TRUE(TakeOperation({1, Operation(ListAdaptersOp{})}).ok());
}

TEST(SessionCheck, RefusesImpossibleValuesOfAReport) {
  TransportReportOp report;
  EXPECT_EQ(CodeOf(report), StatusCode::kInvalidParameter);
  report.what = static_cast<TransportReportOp::What>(77);
  EXPECT_EQ(CodeOf(report), StatusCode::kInvalidParameter);
  report.what = TransportReportOp::What::kPeerClosed;
  EXPECT_EQ(CodeOf(report), StatusCode::kSuccess);
  report.what = TransportReportOp::What::kPrepared;  // The last value of each enumeration is valid.
  report.reason = DisconnectReason::kEstablishmentFailed;
  report.status = Status(StatusCode::kIoTimeout, "", Detail::kStaleConnection);
  EXPECT_EQ(CodeOf(report), StatusCode::kSuccess);
  report.reason = static_cast<DisconnectReason>(8);
  EXPECT_EQ(CodeOf(report), StatusCode::kInvalidParameter);
  report.reason = DisconnectReason::kUnknown;
  report.status = Status(static_cast<StatusCode>(0x12345678));
  EXPECT_EQ(CodeOf(report), StatusCode::kInvalidParameter);
  report.status = Status(StatusCode::kIoTimeout, "", static_cast<Detail>(18));
  EXPECT_EQ(CodeOf(report), StatusCode::kInvalidParameter);
  report.status = Status(StatusCode::kIoTimeout, std::string(kMaxSentence, 'x'));
  EXPECT_EQ(CodeOf(report), StatusCode::kSuccess);
  report.status = Status(StatusCode::kIoTimeout, std::string(kMaxSentence + 1, 'x'));
  EXPECT_EQ(CodeOf(report), StatusCode::kInvalidParameter);
}

TEST(SessionCheck, ChecksEveryFieldOfHello) {
  EXPECT_EQ(TakeHello({1, {}}).code(), StatusCode::kInvalidDeviceRequest);
  Hello hello;
  const auto code = [&hello](OpId id = 1) { return TakeHello({id, hello}).code(); };
  hello.token = Bytes(15, 'x');
  EXPECT_EQ(code(), StatusCode::kAccessDenied);
  hello.token = Bytes(16, 'x');
  EXPECT_EQ(code(), StatusCode::kNotSupported) << "versions 0 to 0";
  hello.min_version = 2;
  hello.max_version = 9;
  EXPECT_EQ(code(), StatusCode::kNotSupported);
  hello.min_version = 1;
  EXPECT_EQ(code(), StatusCode::kSuccess);
  hello.max_version = 1;
  EXPECT_EQ(code(), StatusCode::kSuccess);
  EXPECT_EQ(code(0), StatusCode::kInvalidParameter);
  for (const char* bad : {"a b", "a\nb", "\xc3\xa4", "a/b"}) {
    hello.application = bad;
    EXPECT_EQ(code(), StatusCode::kInvalidParameter) << bad;
  }
  hello.application = std::string(65, 'a');
  EXPECT_EQ(code(), StatusCode::kInvalidParameter);
  for (const std::string& good : {std::string(64, 'a'), std::string("AZ.az_09-")}) {
    hello.application = good;
    EXPECT_EQ(code(), StatusCode::kSuccess) << good;
  }
}

}  // namespace
}  // namespace nd::session
