// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/history_sink.h"

#include <gtest/gtest.h>

#include <chrono>

#include "daemon/service/convert.h"
#include "daemon/shell/history_messages.h"
#include "daemon/shell/id_text.h"
#include "tests/testing/process.h"

namespace nd::service {
namespace {

using core::ConnectionRecord;
using std::chrono::milliseconds;

constexpr Time kNow{std::chrono::hours(100)};
constexpr state::UnixTime kWall = state::UnixTime{1'800'000'000} * 1'000'000;

ConnectionRecord MakeRecord() {
  ConnectionRecord record;
  record.outcome = ConnectionRecord::Outcome::kBroken;
  record.id = core::Handle::Make(7, 1, 2);
  core::Identity owner;
  owner.pid = 42;
  owner.uid = 1000;
  owner.command = "nvme";
  owner.application = "target";
  owner.unit = "nvmet.service";
  owner.container = "abc";
  owner.cgroup = "/x";
  record.owner = std::make_shared<const core::Identity>(owner);
  record.adapter = "soft0";
  record.local = Address::Parse("10.0.0.1:50000").value();
  record.peer = Address::Parse("[fd00::1]:7000").value();
  record.passive = true;
  record.phases.began = kNow - milliseconds(500);
  record.phases.End(core::Phase::kDeliver, kNow - milliseconds(400));
  record.phases.End(core::Phase::kAccept, kNow - milliseconds(100));
  record.established = kNow - milliseconds(90);
  record.ended = kNow - milliseconds(10);
  record.why = Status(StatusCode::kConnectionAborted, "It went away.", Detail::kPeerProcessDied);
  return record;
}

TEST(HistorySink, RowDescribesTheRecord) {
  Traffic traffic;
  traffic.tx_bytes = 1;
  traffic.rx_reads = 2;
  traffic.wakeups = 3;
  const state::HistoryRow row = ToRow(MakeRecord(), "local", traffic, kNow, kWall);
  EXPECT_EQ(row.id, IdText('c', MakeRecord().id.value));
  EXPECT_EQ(row.started, kWall - 500'000);
  EXPECT_EQ(row.established, kWall - 90'000);
  EXPECT_EQ(row.ended, kWall - 10'000);
  EXPECT_EQ(row.peer.ToString(), "[fd00::1]:7000");
  EXPECT_TRUE(row.passive);
  EXPECT_EQ(row.pid, 42u);
  EXPECT_EQ(row.application, "target");
  EXPECT_EQ(row.unit, "nvmet.service");
  EXPECT_EQ(row.transport, "local");
  EXPECT_EQ(row.outcome, "broken");
  EXPECT_EQ(row.status, "CONNECTION_ABORTED");
  EXPECT_EQ(row.detail, "peer process died");
  EXPECT_EQ(row.reason, "It went away.");
  EXPECT_EQ(row.tx_bytes, 1u);
  EXPECT_EQ(row.rx_reads, 2u);
  EXPECT_EQ(row.wakeups, 3u);
  ASSERT_EQ(row.phases.size(), 2u);
  EXPECT_EQ(row.phases[0].name, "deliver");
  EXPECT_DOUBLE_EQ(row.phases[0].seconds, 0.1);
  EXPECT_DOUBLE_EQ(row.phases[1].seconds, 0.3);
  pb::HistoryRow message;
  ToProto(row, &message);
  EXPECT_EQ(message.started(), "2027-01-15T07:59:59.500Z");
  EXPECT_EQ(message.established(), "2027-01-15T07:59:59.910Z");
  EXPECT_EQ(message.ended(), "2027-01-15T07:59:59.990Z");
  EXPECT_EQ(message.owner().container(), "abc");
  EXPECT_EQ(message.traffic().rx_reads(), 2u);
  EXPECT_EQ(message.phases(1).name(), "accept");
}

TEST(HistorySink, FailedAttemptWasNeverEstablished) {
  ConnectionRecord record = MakeRecord();
  record.outcome = ConnectionRecord::Outcome::kFailed;
  record.established.reset();
  record.why = Status(StatusCode::kIoTimeout);
  const state::HistoryRow row = ToRow(record, "", {}, kNow, kWall);
  EXPECT_FALSE(row.established);
  EXPECT_EQ(row.transport, "");
  EXPECT_EQ(row.detail, "");
  pb::HistoryRow message;
  ToProto(row, &message);
  EXPECT_EQ(message.established(), "");
}

TEST(HistorySink, FiltersAreChecked) {
  pb::HistoryRequest request;
  EXPECT_EQ(ToFilter(request)->limit, 1000u);
  request.set_since("2027-01-15T08:00:00Z");
  request.set_until("2027-01-15T10:00:00+01:00");
  request.set_peer("10.0.0.1");
  request.set_limit(7);
  const auto filter = ToFilter(request);
  ASSERT_TRUE(filter.ok()) << filter.status().ToString();
  EXPECT_EQ(*filter->since, kWall);
  EXPECT_EQ(*filter->until, kWall + state::UnixTime{3600} * 1'000'000);
  EXPECT_EQ(filter->peer.port(), 0);
  const auto refused = [&](const char* begin) {
    const auto bad = ToFilter(request);
    EXPECT_EQ(bad.code(), StatusCode::kInvalidParameter);
    EXPECT_TRUE(bad.status().message().starts_with(begin)) << bad.status().message();
  };
  request.set_limit(1'000'001);
  refused("limit: 1000001 is too many");
  request.set_limit(0);
  request.set_peer("host.example");
  refused("peer: \"host.example\" is no address");
  request.set_peer("");
  request.set_until("2027-01-15T07:00:00Z");
  refused("until: 2027-01-15T07:00:00Z is before since");
  request.set_until("tomorrow");
  refused("until: \"tomorrow\" is no time");
  request.set_since(std::string(1000, 'x'));
  refused("since: \"xxx");
}

TEST(HistorySink, FileIsWhereTheDocumentationSays) {
  HistorySettings settings;
  testing::SetVariable("STATE_DIRECTORY", nullptr);
  EXPECT_EQ(HistoryFile(settings, "/run/user/1000/ndbroker"), "/run/user/1000/ndbroker/history.db");
  testing::SetVariable("STATE_DIRECTORY", "/var/lib/a:/var/lib/b");
  EXPECT_EQ(HistoryFile(settings, "/run/x"), "/var/lib/a/history.db");
  settings.file = "/data/h.db";
  EXPECT_EQ(HistoryFile(settings, "/run/x"), "/data/h.db");
  testing::SetVariable("STATE_DIRECTORY", nullptr);
}

}  // namespace
}  // namespace nd::service
