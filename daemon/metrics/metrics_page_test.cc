// SPDX-License-Identifier: Apache-2.0
// A picture as text and as JSON: hostile names, sorting, paging, and bad queries.
#include "daemon/metrics/metrics_page.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "daemon/metrics/web_api.h"

namespace nd::service {
namespace {

ops::Flow Bytes(std::uint64_t tx, std::uint64_t rx) {
  ops::Flow flow{};
  flow[static_cast<std::size_t>(ops::Count::kTxBytes)] = tx;
  flow[static_cast<std::size_t>(ops::Count::kRxBytes)] = rx;
  return flow;
}

// Makes `count` connections; later ones are older and busier.
Picture Connections(std::size_t count, const std::string& application = "app") {
  Picture picture;
  picture.at = Time(std::chrono::hours(1));
  const auto who = std::make_shared<const ops::Who>(ops::Who{application, 1000, "", ""});
  const auto link = std::make_shared<const ops::LinkKey>(ops::LinkKey{"soft0", "local"});
  ops::Row row;
  row.flow = Bytes(7, 8);
  row.connections = static_cast<std::uint32_t>(count);
  picture.applications.emplace_back(who, row);
  for (std::size_t i = 1; i <= count; ++i) {
    ops::Tallies::Live live;
    live.id = i;
    live.who = who;
    live.link = link;
    live.peer = Address::V4({10, 0, 0, 1}, static_cast<std::uint16_t>(i));
    live.since = picture.at - std::chrono::seconds(i);
    live.flow = Bytes(i * 100, 1000 - i);
    picture.live.push_back(live);
  }
  return picture;
}

std::string Ask(const Picture& picture, std::vector<std::pair<std::string, std::string>> query) {
  ops::HttpRequest request;
  request.query = std::move(query);
  const Result<std::string> json = ConnectionsJson(picture, request);
  return json.ok() ? json.value() : json.status().message();
}
// Returns the ids of the rows, in order.
std::string Ids(const std::string& json) {
  std::string out;
  for (std::size_t at = 0; (at = json.find("\"id\":\"c-", at)) != std::string::npos;) {
    at += 6;
    out += (out.empty() ? "" : " ") + json.substr(at, json.find('"', at) - at);
  }
  return out;
}

TEST(MetricsPage, NamesCannotForgeALineOrFailTheScrape) {
  Picture picture;
  const auto who = std::make_shared<const ops::Who>(
      ops::Who{"a\"} 1\nforged 2\\", 5, "caf\xc3\xa9\xff.service", std::string("x\0y", 3)});
  picture.applications.emplace_back(who, ops::Row{});
  const std::string page = MetricsPage(picture, {}, 0);
  EXPECT_EQ(page.find("\nforged"), std::string::npos);
  EXPECT_NE(page.find("ndbroker_application_connections{application=\"a\\\"} 1?forged 2\\\\\",uid=\"5\","
                      "unit=\"caf???.service\",container=\"x?y\"} 0\n"),
            std::string::npos)
      << page;
}

TEST(MetricsPage, OnlyTheBusiestConnectionsAreListedAndOnlyOnRequest) {
  const Picture picture = Connections(5);
  EXPECT_EQ(MetricsPage(picture, {}, 0).find("ndbroker_connection_transmit"), std::string::npos);
  const std::string page = MetricsPage(picture, {}, 2);
  EXPECT_NE(page.find("ndbroker_connection_transmit_bytes_total{connection=\"c-5\""), std::string::npos)
      << page;
  EXPECT_NE(page.find("{connection=\"c-4\""), std::string::npos);
  EXPECT_EQ(page.find("{connection=\"c-3\""), std::string::npos);
}

TEST(MetricsPage, RefusalsAtTheSocketsAreListedFromZero) {
  Picture picture;
  picture.doors["broker.sock"].Refuse(ops::Refusal::kUserLimit);
  picture.doors["admin.sock"];
  picture.doors["peers"].Fail(EMFILE);
  picture.doors["peers"].Fail(ENFILE);
  picture.doors["peers"].Fail(EPERM);
  picture.admin_calls[{"KillConnection", "INVALID_HANDLE"}] = 3;
  const std::string page = MetricsPage(picture, {}, 0);
  for (const char* line :
       {"ndbroker_clients_refused_total{socket=\"broker.sock\",reason=\"user limit\"} 1\n",
        "ndbroker_clients_refused_total{socket=\"admin.sock\",reason=\"user limit\"} 0\n",
        "ndbroker_accept_errors_total{socket=\"peers\",error=\"no descriptors\"} 2\n",
        "ndbroker_accept_errors_total{socket=\"peers\",error=\"other\"} 1\n",
        "ndbroker_accept_errors_total{socket=\"peers\",error=\"no memory\"} 0\n",
        "ndbroker_admin_requests_total{method=\"KillConnection\",status=\"INVALID_HANDLE\"} 3\n"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
  EXPECT_EQ(page.find("clients_refused_total{socket=\"peers\""), std::string::npos) << "peers say no name";
}

TEST(ConnectionsJson, SortsFiltersAndPages) {
  const Picture picture = Connections(7);
  EXPECT_EQ(Ids(Ask(picture, {})), "c-7 c-6 c-5 c-4 c-3 c-2 c-1") << "the busiest first";
  EXPECT_EQ(Ids(Ask(picture, {{"sort", "rx"}, {"limit", "2"}})), "c-1 c-2");
  EXPECT_EQ(Ids(Ask(picture, {{"sort", "age"}, {"limit", "2"}})), "c-7 c-6") << "the oldest first";
  EXPECT_EQ(Ids(Ask(picture, {{"sort", "peer"}, {"order", "asc"}, {"limit", "2"}, {"offset", "2"}})),
            "c-3 c-4");
  EXPECT_EQ(Ids(Ask(picture, {{"filter", "10.0.0.1:3"}})), "c-3");
  EXPECT_EQ(Ids(Ask(picture, {{"filter", "APP"}, {"sort", "application"}})), "c-1 c-2 c-3 c-4 c-5 c-6 c-7");
  EXPECT_EQ(Ids(Ask(picture, {{"offset", "100"}})), "");
  EXPECT_NE(Ask(picture, {{"filter", "c-7"}}).find("\"total\":7,\"found\":1,"), std::string::npos);
}

TEST(ConnectionsJson, RefusesABadQueryWithTheReason) {
  const Picture picture = Connections(1);
  EXPECT_EQ(Ask(picture, {{"limit", "201"}}), "\"limit\" must be a number from 0 to 200.");
  EXPECT_EQ(Ask(picture, {{"limit", "x"}}), "\"limit\" must be a number from 0 to 200.");
  EXPECT_EQ(Ask(picture, {{"offset", "-1"}}), "\"offset\" must be a number from 0 to 1000000000.");
  EXPECT_EQ(Ask(picture, {{"sort", "luck"}}), "\"sort\" must be age, tx, rx, application, peer or id.");
  EXPECT_EQ(Ask(picture, {{"order", "up"}}), "\"order\" must be asc or desc.");
}

TEST(ConnectionsJson, EveryNameIsValidJson) {
  const std::string json = Ask(Connections(1, "</script>\"\n\xff"), {});
  EXPECT_NE(json.find("\\u003c/script>\\u0022\\u000a\\u00ff"), std::string::npos) << json;
}

TEST(Picture, ReportsWhyItIsNotReady) {
  Picture picture;
  EXPECT_EQ(picture.NotReady(), "The broker has no adapter.");
  core::AdapterRow row;
  row.description.info.name = "soft0";
  picture.adapters.push_back(row);
  EXPECT_EQ(picture.NotReady(), "No adapter is usable: soft0 (no address).");
  row.description.info.name = "soft1";
  row.description.info.addresses = {Address::V4({127, 0, 0, 1})};
  row.enabled = false;
  picture.adapters.push_back(row);
  EXPECT_EQ(picture.NotReady(), "No adapter is usable: soft0 (no address), soft1 (disabled).");
  picture.adapters.back().enabled = true;
  EXPECT_EQ(picture.NotReady(), "");
  picture.draining = true;
  EXPECT_NE(picture.NotReady(), "");
}

}  // namespace
}  // namespace nd::service
