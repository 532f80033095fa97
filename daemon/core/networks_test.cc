// SPDX-License-Identifier: Apache-2.0
// Adapters of served network namespaces: who sees them, whose ports they have, and that they go for good.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;

// The host's adapters and those of the networks, which all have the same addresses as the first host.
void Serve(World& w, const std::vector<std::uint64_t>& networks) {
  std::vector<provider::AdapterDescription> all;
  for (const AdapterRow& row : w.broker().Adapters()) {
    if (row.description.network == 0) all.push_back(row.description);
  }
  for (const std::uint64_t network : networks) {
    all.push_back(TestAdapter("a0@" + std::to_string(network), {"10.0.0.1", "10.0.0.2"}));
    all.back().network = network;
  }
  w.Step(0, AdaptersChanged{all});
}

World::Client OpenIn(World& w, std::uint64_t network, const std::string& adapter = "a0") {
  w.open_network = network;
  const World::Client client = w.Open(0, 1000, 0, adapter);
  w.open_network = 0;
  return client;
}

TEST(Networks, AClientSeesTheAdaptersOfItsNetworkOnly) {
  World w;
  Serve(w, {7, 9});
  const auto host = w.Open(), pod = OpenIn(w, 7);
  const auto names = [&](const World::Client& client) {
    std::string text;
    for (const AdapterInfo& info : w.Call(client, ListAdaptersOp{}).reply.adapters) text += info.name + " ";
    return text;
  };
  EXPECT_EQ(names(host), "a0 a1 ");
  EXPECT_EQ(names(pod), "a0@7 ");
  EXPECT_EQ(w.Try(host, OpenAdapterOp{"a0@7", {}}), SC::kInvalidParameter);
  EXPECT_EQ(w.Try(pod, OpenAdapterOp{"a0@9", {}}), SC::kInvalidParameter);
  EXPECT_EQ(w.Try(pod, OpenAdapterOp{"a1", {}}), SC::kInvalidParameter);
  EXPECT_EQ(w.Call(pod, OpenAdapterOp{"a0", {}}).reply.adapters.at(0).name, "a0@7");
  EXPECT_EQ(w.Call(pod, OpenAdapterOp{"a0@7", {}}).reply.adapters.at(0).name, "a0@7");
  EXPECT_EQ(w.Call(pod, OpenAdapterOp{"", Ip("10.0.0.2")}).reply.adapters.at(0).name, "a0@7");
}

TEST(Networks, EachHasPortsOfItsOwn) {
  World w;
  Serve(w, {7, 9});
  const auto host = w.Open(), pod = OpenIn(w, 7), other = OpenIn(w, 9);
  for (const World::Client& client : {host, pod, other}) {
    EXPECT_TRUE(w.Listener(client, "10.0.0.1:445"));
    EXPECT_TRUE(w.Listener(client, "0.0.0.0:446"));
    EXPECT_TRUE(w.Bound(client, "10.0.0.1:5000"));
    EXPECT_EQ(w.Try(client, BindOp{w.Connector(client), Ip("10.0.0.1:445")}), SC::kSharingViolation);
  }
  const Settings narrow{.ephemeral_first = 50000, .ephemeral_last = 50001};
  w.Step(0, SettingsChanged{narrow, {}});
  for (const World::Client& client : {host, pod, other}) {
    EXPECT_EQ(w.Try(client, BindOp{w.Connector(client), Ip("10.0.0.2:0")}), SC::kSuccess);
    EXPECT_EQ(w.Try(client, BindOp{w.Connector(client), Ip("10.0.0.2:0")}), SC::kSuccess);
    EXPECT_EQ(w.Try(client, BindOp{w.Connector(client), Ip("10.0.0.2:0")}), SC::kTooManyAddresses);
  }
}

TEST(Networks, TheAdministratorReservesPortsOfTheHostOnly) {
  World w;
  Serve(w, {7});
  const auto host = w.Open(), pod = OpenIn(w, 7);
  w.Step(0, ReservePort{Ip("10.0.0.1:445"), {}, "", 1});
  EXPECT_EQ(w.Try(host, BindOp{w.Connector(host), Ip("10.0.0.1:445")}), SC::kSharingViolation);
  EXPECT_EQ(w.Try(pod, BindOp{w.Connector(pod), Ip("10.0.0.1:445")}), SC::kSuccess);
}

TEST(Networks, ConnectActionNamesTheOperationOfItsSocket) {
  World w;
  Serve(w, {7});
  const auto pod = OpenIn(w, 7);
  ConnectOp op;
  op.connector = w.Connector(pod);
  op.queue_pair = w.Qp(pod);
  op.remote = Ip("10.9.0.1:7000");
  op.source = Ip("10.0.0.1:0");
  const OpId id = w.Submit(pod, op);
  const CmConnect sent = w.Seen<CmConnect>().back();
  EXPECT_EQ(sent.params.adapter, "a0@7");
  EXPECT_EQ(sent.session, pod.session);
  EXPECT_EQ(sent.op_id, id);
}

TEST(Networks, AnAdapterThatIsGoneMakesRoomForTheNext) {
  World w;
  Serve(w, {7});
  const auto pod = OpenIn(w, 7);
  const Handle bound = w.Bound(pod, "10.0.0.1:0");
  Serve(w, {});
  EXPECT_EQ(w.Try(pod, CreateConnectorOp{pod.adapter}), SC::kDeviceRemoved);
  // Its objects stay until their application closes them.
  Serve(w, {9});
  const auto other = OpenIn(w, 9);
  EXPECT_TRUE(w.Bound(other, "10.0.0.1:0"));
  EXPECT_EQ(w.Close(pod, bound), SC::kSuccess);
  w.Die(pod);
  w.Die(other);
  for (std::uint64_t network = 10; network < 200; ++network) {
    Serve(w, {network});
    const auto next = OpenIn(w, network);
    EXPECT_TRUE(w.Bound(next, "10.0.0.1:0"));
    w.Die(next);
  }
  EXPECT_EQ(w.broker().Adapters().size(), 3u);
  EXPECT_EQ(w.broker().AdapterPlaces(), 4u);
}

}  // namespace
}  // namespace nd::core
