// SPDX-License-Identifier: Apache-2.0
// A provider whose client half makes the connections, through a whole broker and the library: the messages
// between its halves go by the lanes of the two clients.
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>

#include "client-lib/core/open.h"
#include "client-lib/src/face.h"
#include "daemon/server/server.h"
#include "nd/nd.h"
#include "provider/networkdirect/cm/clerk.h"
#include "tests/provider/calling_device.h"

namespace nd {
namespace {

using provider::AdapterDescription, provider::CmSink, provider::ConnectionManager, provider::DaemonProviders;
using provider::networkdirect::CallingDevice, provider::networkdirect::Clerk;
using std::chrono::seconds;

class HalvesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ndhalvesXXXXXX";
    directory_ = ::mkdtemp(name);
    StartBroker();
  }
  void TearDown() override {
    adapters_.clear();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  void StartBroker() {
    service::Server::Options options;
    options.config = Config::Default();
    options.directory = directory_;
    options.make_manager = [](const DaemonProviders&, EventLoop&,
                              CmSink& sink) -> Result<std::unique_ptr<ConnectionManager>> {
      auto clerk = std::make_unique<Clerk>(sink);
      provider::networkdirect::FoundAdapter adapter;
      AdapterDescription& description = adapter.description;
      description.info = client::FakeDevice::Info();
      description.info.name = "nd0";
      description.info.provider = provider::networkdirect::kName;
      description.info.flags = kAdapterLoopback;
      description.info.max_inbound_read_limit = description.info.max_outbound_read_limit = 16;
      description.info.max_caller_data = description.info.max_callee_data = 56;
      description.info.addresses = {Address::Parse("127.0.0.1").value()};
      description.reserve_ports = true;
      description.shares_listening_ports = false;
      clerk->SetAdapters({adapter});
      return std::unique_ptr<ConnectionManager>(std::move(clerk));
    };
    auto server = service::Server::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }
  Result<Adapter> TryOpen() {
    client::Environment environment = client::HostEnvironment(directory_, false);
    environment.open_device = [this](const AdapterInfo&) -> Result<std::shared_ptr<provider::Device>> {
      devices_.push_back(std::make_shared<CallingDevice>(network_));
      return std::shared_ptr<provider::Device>(devices_.back());
    };
    environment.first_backoff = std::chrono::milliseconds(1);
    return client::Made<Adapter>(client::OpenAdapter(client::SessionOptionsOf({}), environment));
  }
  Adapter Open() {
    adapters_.push_back(TryOpen().value());
    return adapters_.back();
  }
  static Address At(std::uint16_t port) { return Address::V4({127, 0, 0, 1}, port); }

  // Two processes of an application, as far as the broker can tell.
  struct End {
    explicit End(const Adapter& with)
        : adapter(with),
          queue(adapter.CreateCompletionQueue(16).value()),
          pair(adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue}).value()),
          connector(adapter.CreateConnector().value()) {}
    Adapter adapter;
    CompletionQueue queue;
    QueuePair pair;
    Connector connector;
  };
  static std::vector<std::byte> Data(const char* text) {
    const auto* from = reinterpret_cast<const std::byte*>(text);
    return {from, from + std::char_traits<char>::length(text)};
  }

  std::string directory_;
  const std::shared_ptr<provider::networkdirect::Network> network_ =
      std::make_shared<provider::networkdirect::Network>();
  std::vector<std::shared_ptr<CallingDevice>> devices_;
  std::unique_ptr<service::Server> server_;
  std::vector<Adapter> adapters_;
};

TEST_F(HalvesTest, ConnectsWithDataAndLimitsAndDisconnects) {
  End active(Open()), passive(Open());
  Listener listener = passive.adapter.CreateListener().value();
  ASSERT_TRUE(listener.Bind(At(7000)).ok());
  ASSERT_TRUE(listener.Listen().ok());
  ASSERT_TRUE(active.connector.Bind(At(0)).ok());
  const std::vector<std::byte> hello = Data("hello"), welcome = Data("welcome");
  auto connected = std::async(std::launch::async, [&] {
    Status status = active.connector.Connect(active.pair, At(7000), {{3, 5}, hello});
    return status.ok() ? active.connector.CompleteConnect() : status;
  });
  ASSERT_TRUE(listener.GetConnectionRequest(passive.connector).ok());
  EXPECT_EQ(passive.connector.GetPrivateData().value(), hello);
  std::uint32_t inbound = 0, outbound = 0;
  ASSERT_TRUE(passive.connector.GetReadLimits(&inbound, &outbound).ok());
  EXPECT_EQ(inbound, 5u);
  EXPECT_EQ(outbound, 3u);
  ASSERT_TRUE(passive.connector.Accept(passive.pair, {{4, 2}, welcome}).ok());
  ASSERT_TRUE(connected.get().ok());
  EXPECT_EQ(active.connector.GetPrivateData().value(), welcome);
  EXPECT_EQ(active.connector.GetPeerAddress().value(), At(7000));
  ASSERT_TRUE(active.connector.GetReadLimits(&inbound, &outbound).ok());
  EXPECT_EQ(inbound, 2u);
  EXPECT_EQ(outbound, 4u);
  auto gone = std::async(std::launch::async, [&] { return passive.connector.NotifyDisconnect(); });
  EXPECT_TRUE(active.connector.Disconnect().ok());
  EXPECT_TRUE(gone.get().ok());
  EXPECT_TRUE(passive.connector.Disconnect().ok());
}

TEST_F(HalvesTest, ARefusalComesWithItsData) {
  End active(Open()), passive(Open());
  ASSERT_TRUE(active.connector.Bind(At(0)).ok());
  EXPECT_EQ(active.connector.Connect(active.pair, At(7000)).detail(), Detail::kNoListener);
  Listener listener = passive.adapter.CreateListener().value();
  ASSERT_TRUE(listener.Bind(At(7000)).ok());
  ASSERT_TRUE(listener.Listen().ok());
  auto refused =
      std::async(std::launch::async, [&] { return active.connector.Connect(active.pair, At(7000)); });
  ASSERT_TRUE(listener.GetConnectionRequest(passive.connector).ok());
  ASSERT_TRUE(passive.connector.Reject(Data("no")).ok());
  EXPECT_EQ(refused.get().code(), StatusCode::kConnectionRefused);
  EXPECT_EQ(active.connector.GetPrivateData().value(), Data("no"));
}

TEST_F(HalvesTest, ThePortIsTheAdaptersToo) {
  End end(Open());
  EXPECT_EQ(end.connector.Bind(At(666)).code(), StatusCode::kSharingViolation);
  Listener listener = end.adapter.CreateListener().value();
  ASSERT_TRUE(listener.Bind(At(7000)).ok());
  End other(Open());
  EXPECT_EQ(other.connector.Bind(At(7000)).code(), StatusCode::kSharingViolation);
}

TEST_F(HalvesTest, TheDeviceMeetsTheNextBroker) {
  End active(Open()), passive(Open());
  Listener listener = passive.adapter.CreateListener().value();
  ASSERT_TRUE(listener.Bind(At(7000)).ok());
  ASSERT_TRUE(listener.Listen().ok());
  server_.reset();
  StartBroker();
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  const auto back = [this] { return devices_[0]->welcomes() == 2 && devices_[1]->welcomes() == 2; };
  while (!back() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(seconds(0));
  ASSERT_TRUE(back());
  while (!active.adapter.connected() || !passive.adapter.connected()) std::this_thread::yield();
  auto request = std::async(std::launch::async, [&] {
    Connector connector = passive.adapter.CreateConnector().value();
    const Status status = listener.GetConnectionRequest(connector);
    return status.ok() ? connector.Accept(passive.pair) : status;
  });
  Connector connector = active.adapter.CreateConnector().value();
  ASSERT_TRUE(connector.Bind(At(0)).ok());
  ASSERT_TRUE(connector.Connect(active.pair, At(7000)).ok());
  ASSERT_TRUE(connector.CompleteConnect().ok());
  EXPECT_TRUE(request.get().ok());
}

TEST_F(HalvesTest, NonsenseEndsTheSessionOfItsSenderAlone) {
  End bad(Open()), good(Open());
  const std::byte nonsense[3] = {};
  ASSERT_TRUE(devices_[0]->Say(nonsense).ok());
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  // The session ends, and the device meets the broker again in the next one.
  while (devices_[0]->welcomes() != 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(devices_[0]->welcomes(), 2);
  EXPECT_EQ(devices_[1]->welcomes(), 1);
  EXPECT_TRUE(good.connector.Bind(At(0)).ok());
}

}  // namespace
}  // namespace nd
