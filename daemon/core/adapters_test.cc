// SPDX-License-Identifier: Apache-2.0
// Adapters that are disabled, vanish, come back or change: the objects on them, and those that have nothing
// to do with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

// The names of the adapters that this client sees.
std::string Listed(World& w, const World::Client& client) {
  std::string names;
  for (const AdapterInfo& info : w.Call(client, ListAdaptersOp{}).reply.adapters) names += info.name + " ";
  return names;
}

int BindAny(World& w, const World::Client& client) {
  return w.Call(client, BindOp{w.Connector(client), Ip("10.0.0.1:0")}).reply.address.port();
}

int After(int port) {
  return port == 65535 ? 49152 : port + 1;
}

provider::AdapterDescription Served(std::uint64_t network, const std::vector<std::string>& ips) {
  provider::AdapterDescription served = TestAdapter("a0@" + std::to_string(network), ips);
  served.network = network;
  return served;
}

World::Client OpenIn(World& w, std::uint64_t network) {
  w.open_network = network;
  const World::Client client = w.Open();
  w.open_network = 0;
  return client;
}

// The wire learns of an attempt by abort or reject, and its transport only exists once it is established.
TEST(DisabledAdapter, AttemptIsWithdrawnWithoutACommandForATransport) {
  for (const Stage stage : {Stage::kListening, Stage::kConnecting, Stage::kReplied}) {
    SCOPED_TRACE(static_cast<int>(stage));
    World w(2);
    const World::Up up = w.Pair(stage);
    w.Connector(up.a);
    w.ClearLog();
    w.Step(0, SetAdapter{"a0", false});
    EXPECT_TRUE(w.Seen<SendTransportCommand>(0).empty());
    EXPECT_TRUE(w.Seen<CmReject>(0).empty());
    EXPECT_EQ(w.Seen<CmAbort>(0).size(), stage == Stage::kListening ? 0u : 1u);
    EXPECT_EQ(w.broker(0).counters().connection_error, 0u);
  }
}

TEST(DisabledAdapter, ConnectionIsDroppedAndItsRowSaysWhy) {
  for (const bool disconnects : {false, true}) {
    World w(2);
    const World::Up up = w.Pair(Stage::kConnected);
    w.clients_answer = false;
    if (disconnects) w.Submit(up.a, DisconnectOp{up.ac});
    w.ClearLog();
    w.Step(0, SetAdapter{"a0", false});
    ASSERT_EQ(w.Seen<SendTransportCommand>(0).size(), 1u) << disconnects;
    EXPECT_EQ(w.Seen<SendTransportCommand>(0)[0].what, SendTransportCommand::What::kDrop);
    EXPECT_EQ(w.Seen<SendTransportCommand>(0)[0].reason, DisconnectReason::kAdapterDisabled);
    EXPECT_EQ(w.broker(0).counters().connection_error, disconnects ? 0u : 1u);
  }
}

TEST(DisabledAdapter, ListenerEndsWithItsRequestsAndOperations) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnecting);  // The request waits at the listener.
  const Handle other = w.Listener(up.p, "10.0.1.1:7001");
  const OpId get = w.Submit(up.p, GetConnectionRequestOp{other, w.Connector(up.p)});
  w.ClearLog();
  w.Step(1, SetAdapter{"a0", false});
  EXPECT_EQ(w.Code(up.p, get), SC::kDeviceRemoved);
  EXPECT_EQ(w.Seen<CmUnlisten>(1).size(), 2u);
  ASSERT_EQ(w.Seen<CmReject>(1).size(), 1u);
  EXPECT_EQ(w.Seen<CmReject>(1)[0].detail, Detail::kAdapterDisabled);
  w.Step(1, SetAdapter{"a0", true});
  EXPECT_EQ(w.Try(up.p, ListenOp{other}), SC::kDeviceRemoved) << "the adapter is back, the listener is not";
}

// The provider has not granted the port of the host yet.
TEST(DisabledAdapter, ObjectsThatWaitForTheirPortGiveItUp) {
  World w;
  w.KeepPorts();
  const auto c = w.Open();
  const Handle listener = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  const Handle qp = w.Qp(c);
  w.answer_reserves = false;
  const OpId bind = w.Submit(c, BindOp{listener, Ip("10.0.0.1:7000")});
  const OpId endpoint = w.Submit(c, CreateSharedEndpointOp{c.adapter, Ip("10.0.0.1:7001")});
  ReattachOp back = w.Returning(c, "10.0.0.1:7002", "10.0.5.1:7000", false);
  back.queue_pair = qp;
  const OpId coming = w.Submit(c, back);
  ASSERT_EQ(w.broker().Ports().size(), 3u);
  w.Step(0, SetAdapter{"a0", false});
  for (const OpId op : {bind, endpoint, coming}) EXPECT_EQ(w.Code(c, op), SC::kDeviceRemoved);
  EXPECT_TRUE(w.broker().Ports().empty());
  EXPECT_TRUE(w.broker().Endpoints().empty()) << "its client never learned the handle";
  EXPECT_TRUE(w.broker().Connections().empty()) << "nor of this one";
}

TEST(DisabledAdapter, OtherAdaptersAreNotConcerned) {
  World w;
  const auto first = w.Open(), other = w.Open(0, 1000, 0, "a1");
  const Handle bound = w.Bound(other, "10.1.0.1:6000"), listener = w.Listener(other, "10.1.0.1:7000");
  const Handle qp = w.Qp(other), endpoint = w.Endpoint(other, "10.1.0.1:7001");
  for (int i = 0; i < 2; ++i) {
    w.ClearLog();
    w.Step(0, SetAdapter{"a0", false});
    ASSERT_EQ(w.Seen<SendAdapterEvent>().size(), 1u);
    EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].adapter, first.adapter);
    EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].what, AdapterEvent::What::kDisabled);
    EXPECT_EQ(w.Try(other, OpenAdapterOp{"a0", {}}), SC::kDeviceNotReady);
    w.ClearLog();
    w.Step(0, SetAdapter{"a0", true});
    ASSERT_EQ(w.Seen<SendAdapterEvent>().size(), 1u);
    EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].adapter, first.adapter);
    EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].what, AdapterEvent::What::kEnabled);
  }
  EXPECT_EQ(w.Try(other, OpenAdapterOp{"a0", {}}), SC::kSuccess);
  EXPECT_EQ(w.Try(other, GetLocalAddressOp{bound}), SC::kSuccess);
  EXPECT_EQ(w.Try(other, GetLocalAddressOp{listener}), SC::kSuccess);
  EXPECT_EQ(w.Try(other, GetLocalAddressOp{endpoint}), SC::kSuccess);
  w.wire_is_cut = true;
  EXPECT_EQ(w.Code(other, w.Connect(other, bound, qp, "10.1.0.1:7000")), SC::kPending);
}

TEST(VanishedAdapter, OneThatComesBackIsANewAdapterInUse) {
  World w;
  const auto c = w.Open();
  const Handle bound = w.Bound(c, "10.0.0.1:6000");
  const auto all = AdaptersOf(w);
  w.Step(0, SetAdapter{"a0", false});
  w.Step(0, AdaptersChanged{{all[1]}});
  EXPECT_EQ(Listed(w, c), "a1 ");
  w.Step(0, AdaptersChanged{{all[1], all[0]}});
  EXPECT_EQ(Listed(w, c), "a1 a0 ");
  EXPECT_EQ(w.Try(c, OpenAdapterOp{"a0", {}}), SC::kSuccess) << "the former one was disabled";
  EXPECT_EQ(w.Try(c, GetLocalAddressOp{bound}), SC::kDeviceRemoved);
  EXPECT_EQ(w.Try(c, CreateConnectorOp{c.adapter}), SC::kDeviceRemoved);
  EXPECT_EQ(w.broker().Adapters().size(), 2u);
}

TEST(VanishedAdapter, TellsItsClientsOnceAndChangesNothingLater) {
  World w;
  const auto c = w.Open();
  const auto all = AdaptersOf(w);
  w.ClearLog();
  w.Step(0, AdaptersChanged{{all[1]}});
  w.Step(0, AdaptersChanged{{all[1]}});
  ASSERT_EQ(w.Seen<SendAdapterEvent>().size(), 1u);
  EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].what, AdapterEvent::What::kRemoved);
  EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].adapter, c.adapter);
  std::vector<std::pair<std::string, Notice::Level>> notes;
  for (const Notice& notice : w.Seen<Notice>()) notes.emplace_back(notice.type, notice.level);
  EXPECT_EQ(
      notes,
      (std::vector<std::pair<std::string, Notice::Level>>{{"adapter.removed", Notice::Level::kWarning}}));
}

TEST(VanishedAdapter, LeavesTheJournalToTheOthers) {
  World w;
  w.Bound(w.Open(), "10.0.0.1:6000");
  w.Bound(w.Open(0, 1000, 0, "a1"), "10.1.0.1:6000");
  w.Step(0, AdaptersChanged{{AdaptersOf(w)[1]}});
  ASSERT_EQ(w.Leases().size(), 1u);
  EXPECT_EQ(w.Leases()[0].adapter, "a1");
}

TEST(VanishedAdapter, PortThatTheHostRefusesIsReportedOnce) {
  World w;
  w.Listener(w.Open(0, 1000, 4242), "10.0.0.1:7000");
  w.Restart(0, w.Leases(), std::chrono::seconds(10));
  auto adapters = AdaptersOf(w);
  adapters[0].reserve_ports = adapters[0].keep_ports = true;
  w.reserve_answers[7000] = SC::kSharingViolation;
  for (int i = 0; i < 2; ++i) {
    w.Step(0, AdaptersChanged{adapters});
    const auto notes = w.Seen<Notice>();
    EXPECT_EQ(
        std::count_if(notes.begin(), notes.end(), [](const Notice& n) { return n.type == "lease.unheld"; }),
        1)
        << i;
  }
}

TEST(VanishedAdapter, PortsOfEachAdapterAreHeldAgain) {
  World w;
  w.Listener(w.Open(0, 1000, 4242), "10.0.0.1:7000");
  w.Listener(w.Open(0, 1000, 4242, "a1"), "10.1.0.1:7000");
  w.Restart(0, w.Leases(), std::chrono::seconds(10));
  w.Listener(w.Open(0, 1000, 4243), "10.0.0.2:7100");  // Its host port was never asked for.
  auto adapters = AdaptersOf(w);
  for (auto& adapter : adapters) adapter.reserve_ports = adapter.keep_ports = true;
  w.Step(0, AdaptersChanged{adapters});
  EXPECT_EQ(w.HostPorts(), (std::vector<std::string>{"+10.0.0.1:7000", "+10.1.0.1:7000"}));
}

// A served network comes and goes with its clients, which is no warning.
TEST(ServedNetwork, ItsEndIsNoWarning) {
  World w;
  auto all = AdaptersOf(w);
  all.push_back(Served(7, {"10.0.0.1"}));
  w.Step(0, AdaptersChanged{all});
  const auto pod = OpenIn(w, 7);
  w.ClearLog();
  all.pop_back();
  w.Step(0, AdaptersChanged{all});
  ASSERT_EQ(w.Seen<Notice>().size(), 1u);
  EXPECT_EQ(w.Seen<Notice>()[0].type, "adapter.removed");
  EXPECT_EQ(w.Seen<Notice>()[0].level, Notice::Level::kInfo);
  ASSERT_EQ(w.Seen<SendAdapterEvent>().size(), 1u);
  EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].adapter, pod.adapter);
}

// Of four vanished places only one may be taken by an adapter of another network: that of a network without
// objects.
TEST(ServedNetwork, TakesThePlaceOfAVanishedNetworkOnly) {
  World w;
  const auto host = AdaptersOf(w);
  auto all = host;
  for (const std::uint64_t network : {7, 8, 9}) all.push_back(Served(network, {"10.0.0.1"}));
  w.Step(0, AdaptersChanged{all});
  const auto pod = OpenIn(w, 7);
  const Handle bound = w.Bound(pod, "10.0.0.1:6000");
  ASSERT_EQ(w.broker().AdapterPlaces(), 5u);
  // Networks 7 (with objects) and 8, and the adapter a1 of the host, are gone.
  w.Step(0, AdaptersChanged{{host[0], all[4]}});
  w.Step(0, AdaptersChanged{{host[0], all[4], Served(10, {"10.0.0.1"})}});
  EXPECT_EQ(w.broker().AdapterPlaces(), 5u) << "in the place of 8";
  EXPECT_EQ(w.Try(pod, GetLocalAddressOp{bound}), SC::kDeviceRemoved);
  const auto next = OpenIn(w, 10);
  EXPECT_EQ(Listed(w, next), "a0@10 ");
  EXPECT_TRUE(next.adapter);
  EXPECT_TRUE(w.Bound(next, "10.0.0.1:6000"));
  w.Step(0, AdaptersChanged{{host[0], all[4], Served(10, {"10.0.0.1"}), Served(11, {"10.0.0.1"})}});
  EXPECT_EQ(w.broker().AdapterPlaces(), 6u) << "neither 7, nor 9, nor a1";
  EXPECT_EQ(Listed(w, OpenIn(w, 9)), "a0@9 ");
  EXPECT_EQ(Listed(w, OpenIn(w, 11)), "a0@11 ");
}

TEST(ServedNetwork, AdapterOfTheHostTakesAPlaceOfItsOwn) {
  World w;
  const auto host = AdaptersOf(w);
  auto all = host;
  all.push_back(Served(7, {"10.0.0.1"}));
  w.Step(0, AdaptersChanged{all});
  w.Step(0, AdaptersChanged{host});
  all = host;
  all.push_back(TestAdapter("a2", {"10.2.0.1"}));
  w.Step(0, AdaptersChanged{all});
  EXPECT_EQ(w.broker().AdapterPlaces(), 4u);
  EXPECT_EQ(Listed(w, w.Open()), "a0 a1 a2 ");
}

// The ports of an address are given least recently used first. A new pool of ports begins at a random one.
TEST(ServedNetwork, OnlyOtherAddressesBeginTheOrderOfPortsAgain) {
  World w;
  auto all = AdaptersOf(w);
  all.push_back(Served(7, {"10.0.0.1"}));
  w.Step(0, AdaptersChanged{all});
  const auto pod = OpenIn(w, 7);
  int last = BindAny(w, pod);
  all[2].info.max_caller_data = 100;
  w.Step(0, AdaptersChanged{all});
  const int next = BindAny(w, pod);
  EXPECT_EQ(next, After(last)) << "the addresses are the same";
  last = next;
  all[2].info.addresses.push_back(Ip("10.0.0.77:0"));
  w.Step(0, AdaptersChanged{all});
  EXPECT_NE(BindAny(w, pod), After(last));
}

TEST(ServedNetwork, NextNetworkBeginsAnOrderOfPortsOfItsOwn) {
  World w;
  auto all = AdaptersOf(w);
  all.push_back(Served(7, {"10.0.0.1"}));
  w.Step(0, AdaptersChanged{all});
  const auto pod = OpenIn(w, 7);
  const int last = BindAny(w, pod);
  w.Die(pod);
  all.pop_back();
  w.Step(0, AdaptersChanged{all});
  all.push_back(Served(8, {"10.0.0.1"}));
  w.Step(0, AdaptersChanged{all});
  ASSERT_EQ(w.broker().AdapterPlaces(), 3u);
  EXPECT_NE(BindAny(w, OpenIn(w, 8)), After(last));
}

TEST(Kill, ConnectionWhoseTransportTheDaemonHoldsIsAborted) {
  World w(2);
  auto adapters = AdaptersOf(w);
  adapters[0].client_disconnects = false;
  w.Step(0, AdaptersChanged{adapters});
  const World::Up up = w.Pair(Stage::kConnected);
  w.ClearLog();
  w.Step(0, KillConnection{up.ac});
  EXPECT_EQ(w.Seen<CmAbort>(0).size(), 1u);
  EXPECT_TRUE(w.Seen<SendTransportCommand>(0).empty());
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
}

TEST(SettingsOfTheBroker, InvalidEphemeralRangeOfALaterChangeIsTheDefault) {
  World w;
  const auto c = w.Open();
  Settings settings;
  settings.ephemeral_first = 0;
  settings.ephemeral_last = 10;
  w.Step(0, SettingsChanged{settings, {}});
  EXPECT_GE(BindAny(w, c), 49152);
}

}  // namespace
}  // namespace nd::core
