// SPDX-License-Identifier: Apache-2.0
// The steps of provider/README.md, taken by a provider that the daemon and the library do not know.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "daemon/config.h"
#include "provider/registry_cm.h"
#include "provider/registry_qp.h"
#include "tests/provider/pipe.h"

namespace nd::provider {
namespace {

// Accepts every request, confirms every reply, and keeps the established connections.
struct Broker final : CmSink {
  void OnReserved(EndpointId, const Status&) override {}
  void OnRequest(const InboundRequest& request) override { manager->Accept(request.id, {}); }
  void OnReply(CmId id, bool, const ReadLimits&, const Bytes&) override { manager->Confirm(id); }
  void OnRejected(CmId, const Status& status, const Bytes&) override { refused = status; }
  void OnFailed(CmId, const Status& status) override { refused = status; }
  void OnEstablished(CmId id) override { up.push_back(id); }
  void OnLost(CmId, const Status& status, const Bytes&) override { refused = status; }
  void OnPeerClosed(CmId, DisconnectReason) override {}
  void OnDisconnected(CmId, const Status&) override {}
  void OnAdaptersChanged() override {}

  std::unique_ptr<ConnectionManager> manager;
  std::vector<CmId> up;
  Status refused;
};

DaemonProviders WithPipe() {
  DaemonProviders providers = MakeDaemonProviders();
  providers.push_back(std::make_shared<pipe::PipeProvider>());
  return providers;
}

TEST(AnyProvider, ReadsItsOwnTable) {
  const Config config = ParseConfig("[pipe]\nadapter = \"pipe0\"\n", "f.toml", WithPipe()).value();
  const auto is_name = [](const Setting& setting) {
    return setting.name == "pipe.adapter" && setting.value == "pipe0";
  };
  EXPECT_TRUE(std::ranges::any_of(config.settings, is_name));
  EXPECT_EQ(ParseConfig("[pipe]\nadaptor = \"pipe0\"\n", "f.toml", WithPipe()).status().message(),
            "f.toml:2:1: unknown key \"adaptor\" in [pipe]; the nearest known one is \"adapter\"");
  EXPECT_EQ(NeedsRestart(ParseConfig("", "f.toml", WithPipe()).value(), config), "[pipe]");
  EXPECT_FALSE(ParseConfig("[pipe]\n", "f.toml").ok());  // Without the provider the table is unknown.
}

TEST(AnyProvider, ConnectsAndMovesData) {
  const Config config = ParseConfig("[pipe]\nadapter = \"pipe0\"\n", "f.toml", WithPipe()).value();
  const SystemClock clock;
  EventLoop loop(clock);
  Broker broker;
  broker.manager = MakeConnectionManager({config.providers.back()}, loop, broker).value();
  const AdapterInfo adapter = broker.manager->adapters().front().info;
  const Address local = Address::Parse("127.0.0.1:4420").value();
  ConnectParams connect;
  connect.id = CmId{1};
  connect.adapter = adapter.name;
  connect.remote = local;
  broker.manager->Connect(connect);
  EXPECT_EQ(broker.refused.detail(), Detail::kNoListener);
  broker.manager->Listen(EndpointId{1}, adapter.name, local);
  broker.manager->Connect(connect);
  ASSERT_EQ(broker.up.size(), 2u);

  const ClientProvider known[] = {{"pipe", pipe::Open}};
  EXPECT_EQ(OpenDevice(adapter, {}).code(), StatusCode::kNotSupported);
  const std::shared_ptr<Device> device = OpenDevice(adapter, {}, known).value();
  QpOptions options;
  std::array<std::shared_ptr<QueuePair>, 2> ends;
  for (std::size_t i = 0; i < 2; ++i) {
    options.receive_cq = options.initiator_cq = device->CreateCompletionQueue(16).value();
    ends[i] = device->CreateQueuePair(options).value();
    HandOff hand_off = broker.manager->TakeHandOff(broker.up[i]).value();
    broker.manager->Abort(broker.up[i]);
    ASSERT_TRUE(ends[i]->Attach(std::move(hand_off)).ok());
  }
  char out[] = "across", in[16] = {};
  const Sge to{in, sizeof in, 0}, from{out, sizeof out, 0};
  ASSERT_TRUE(ends[1]->Receive(nullptr, {&to, 1}).ok());
  ASSERT_TRUE(ends[0]->Send(nullptr, {&from, 1}, 0).ok());
  std::array<Completion, 4> done;
  ASSERT_EQ(options.receive_cq->Poll(done), 1u);  // The queue of ends[1].
  EXPECT_EQ(done[0].bytes_transferred, sizeof out);
  EXPECT_STREQ(in, "across");
}

}  // namespace
}  // namespace nd::provider
