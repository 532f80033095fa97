// SPDX-License-Identifier: Apache-2.0
// Tenants of a real broker that want what is another's: ports, connections, the rights of root. They are this
// program again, as other users.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nd/nd.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "daemon/service/raw_client.h"
#include "tests/testing/daemon.h"
#include "tests/testing/local_end.h"
#include "tests/testing/process.h"

namespace nd::service {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::End;
using testing::Eventually;
using testing::Flat;
using testing::Local;
using testing::OpenAt;

constexpr uid_t kTenant = 65534, kService = 65533;
constexpr std::uint16_t kPort = 7000;

bool Fails(const char* what, const Status& status, StatusCode code) {
  if (status == code) return true;
  std::printf("%s: %s\n", what, status.ToString().c_str());
  return false;
}

// Every way to take a port by number is refused; port 0 is not.
int TakeByNumber(const std::string& directory) {
  Result<Adapter> adapter = OpenAt(directory);
  if (!adapter.ok()) return 2;
  CompletionQueue queue = adapter->CreateCompletionQueue(4).value();
  QueuePair pair = adapter->CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue}).value();
  const StatusCode denied = StatusCode::kAccessDenied;
  bool good = Fails("connector", adapter->CreateConnector()->Bind(Local(kPort)), denied);
  good &= Fails("listener", adapter->CreateListener()->Bind(Local(kPort)), denied);
  good &= Fails("shared endpoint", adapter->CreateSharedEndpoint(Local(kPort)).status(), denied);
  good &= Fails("source", adapter->CreateConnector()->NdkConnect(pair, Local(kPort), Local(1)), denied);
  good &= Fails("any port", adapter->CreateConnector()->Bind(Local(0)), StatusCode::kSuccess);
  return good ? 0 : 1;
}

int Listens(const std::string& directory, std::uint16_t port) {
  Result<Adapter> adapter = OpenAt(directory);
  if (!adapter.ok()) return 2;
  Result<Listener> listener = adapter->CreateListener();
  return Fails("listener", listener->Bind(Local(port)), StatusCode::kSuccess) &&
                 Fails("listen", listener->Listen(), StatusCode::kSuccess)
             ? 0
             : 1;
}

// Takes as many ephemeral ports as it gets, writes their number to a file, and keeps them.
int Exhaust(const std::string& directory, const std::string& file) {
  Result<Adapter> adapter = OpenAt(directory);
  if (!adapter.ok()) return 2;
  std::vector<Connector> held;
  Status last;
  while (last.ok() && held.size() < 20000) {
    Connector connector = adapter->CreateConnector().value();
    last = connector.Bind(Local(0));
    if (last.ok()) held.push_back(std::move(connector));
  }
  for (std::uint32_t port = 49152; port <= 65535; ++port) {  // And by number.
    Connector connector = adapter->CreateConnector().value();
    if (connector.Bind(Local(static_cast<std::uint16_t>(port))).ok()) held.push_back(std::move(connector));
  }
  std::ofstream(file + ".new") << held.size() << " " << last.ToString();
  if (::rename((file + ".new").c_str(), file.c_str()) != 0) return 2;
  for (;;) ::pause();
}

constexpr int kNoUserNamespace = 77;

// Takes a privileged port, with `foreign` as root of a user namespace of its own.
int TakePrivileged(const std::string& directory, bool foreign) {
  if (foreign) {
    // EPERM: under chroot. ENOSPC: /proc/sys/user/max_user_namespaces. Any other error is one of the test.
    if (::unshare(CLONE_NEWUSER) != 0) return errno == EPERM || errno == ENOSPC ? kNoUserNamespace : 4;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 0 1";
    std::ofstream("/proc/self/gid_map") << "0 0 1";
    if (::getuid() != 0) return 3;
  }
  Result<Adapter> adapter = OpenAt(directory);
  if (!adapter.ok()) return 2;
  const StatusCode expected = foreign ? StatusCode::kAccessDenied : StatusCode::kSuccess;
  return Fails("privileged port", adapter->CreateConnector()->Bind(Local(80)), expected) ? 0 : 1;
}

class TenantTest : public ::testing::Test {
 protected:
  void StartBroker(testing::DaemonOptions options) {
    options.adapters = {"addresses = [\"127.0.0.1\"]\ntcp-port = " +
                        std::to_string(25000 + ::getpid() % 7000)};
    daemon_ = std::make_unique<testing::Daemon>(std::move(options));
    ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  }
  testing::Process Start(std::vector<std::string> arguments, std::optional<uid_t> uid = {}) {
    return testing::Process::OfThisBuild("service_tenant_test", std::move(arguments), uid);
  }
  int ExitOf(std::vector<std::string> arguments, std::optional<uid_t> uid = {}) {
    const std::optional<int> status = Start(std::move(arguments), uid).Wait(seconds(60));
    return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
  }
  std::size_t Connected() {
    const Flat rows = daemon_->Admin("ListConnections");
    std::size_t count = 0;
    for (std::size_t i = 0; i < rows.Count("items"); ++i) {
      count += rows["items." + std::to_string(i) + ".state"] == "Connected" ? 1 : 0;
    }
    return count;
  }
  static bool OtherUsers() {
    if (::geteuid() == 0) return true;
    std::printf("SKIPPED LOUDLY: there are no other users without root\n");
    return false;
  }
  std::string directory() const { return daemon_->directory(); }

  std::unique_ptr<testing::Daemon> daemon_;
};

TEST_F(TenantTest, AnEmptyPolicyTakesNoPortOfAService) {
  if (!OtherUsers()) return;
  testing::DaemonOptions options;
  options.rules = {"match = { uid = 65534 }\nlisten = []\nconnect = []\n"};
  StartBroker(options);
  EXPECT_EQ(ExitOf({"--take-by-number", directory()}, kTenant), 0);
  EXPECT_EQ(ExitOf({"--listen", directory(), std::to_string(kPort)}, kService), 0);
  int exit_status = -1;
  EXPECT_NE(daemon_->Ndctl("policy check bind 127.0.0.1:7000 --uid 65534", &exit_status).find("bind"),
            std::string::npos);
  EXPECT_EQ(exit_status, 3);
  daemon_->Ndctl("policy check bind 127.0.0.1:0 --uid 65534", &exit_status);
  EXPECT_EQ(exit_status, 0);
}

TEST_F(TenantTest, AForgedReattachIsRefusedAndLeavesNoTrace) {
  StartBroker({});
  RawClient forger(directory());
  const std::uint64_t pair = forger.QueuePair();
  for (const std::string& proof : {std::string(), std::string(16, '\0'), std::string(16, '\x5a')}) {
    pb::ClientMessage message;
    pb::Reattach& op = *message.mutable_reattach();
    op.set_adapter(forger.adapter);
    op.set_queue_pair(pair);
    for (pb::Address* address : {op.mutable_local(), op.mutable_remote()}) {
      address->set_family(4);
      address->set_ip(std::string("\x7f\0\0\1", 4));
      address->set_port(kPort);
    }
    op.mutable_remote()->set_port(50000);
    op.set_proof(proof);
    const pb::Completion done = forger.stream.Ask(message);
    EXPECT_EQ(done.status().code(), static_cast<std::uint32_t>(StatusCode::kAccessDenied));
    EXPECT_NE(done.status().message().find("proof"), std::string::npos) << done.status().message();
    EXPECT_EQ(done.handle(), 0u);
  }
  EXPECT_EQ(daemon_->Admin("ListConnections").Count("items"), 0u);
  EXPECT_EQ(daemon_->Admin("ListPorts").Count("items"), 0u);
  EXPECT_EQ(daemon_->Count().connections, 0u);
}

// A process that comes back late still has its proof, but the broker has given the connection up.
TEST_F(TenantTest, AReattachAfterTheGraceTimeIsRefused) {
  testing::DaemonOptions options;
  options.sections["broker"] = "reclaim-grace = \"10min\"";
  StartBroker(options);
  Adapter adapter = OpenAt(directory()).value();
  Listener listener = adapter.CreateListener().value();
  ASSERT_TRUE(listener.Bind(Local(kPort)).ok());
  ASSERT_TRUE(listener.Listen().ok());
  End server(adapter);
  testing::Process peer = Start({"--peer", directory()});
  ASSERT_TRUE(listener.GetConnectionRequest(server.connector).ok());
  Request accepted;
  static_cast<void>(server.connector.Accept(server.pair, {}, &accepted));
  ASSERT_TRUE(accepted.GetResult().ok());
  ASSERT_TRUE(Eventually([&] { return Connected() == 2; }, seconds(30)));
  peer.Pause();
  daemon_->Kill();
  ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  ASSERT_TRUE(Eventually([&] { return Connected() == 1; }, seconds(30))) << "in time: " << daemon_->log();
  ASSERT_TRUE(daemon_->SkipTime(minutes(11)).ok());
  peer.Resume();
  EXPECT_TRUE(
      Eventually([&] { return daemon_->Ndctl("status -o json").find("ACCESS_DENIED") != std::string::npos; },
                 seconds(30)))
      << daemon_->Ndctl("status -o json");
  EXPECT_EQ(Connected(), 1u);
}

TEST_F(TenantTest, OneTenantCannotTakeAllEphemeralPorts) {
  if (!OtherUsers()) return;
  StartBroker({});
  const std::string place = testing::MakeTempDirectory("ndshare-");
  ::chmod(place.c_str(), 0777);
  testing::Process greedy = Start({"--exhaust", directory(), place + "/count"}, kTenant);
  ASSERT_TRUE(Eventually([&] { return ::access((place + "/count").c_str(), F_OK) == 0; }, seconds(60)));
  std::size_t count = 0;
  std::string why;
  std::ifstream told(place + "/count");
  told >> count;
  std::getline(told, why);
  std::printf("one tenant got %zu of 16384 ports, then%s\n", count, why.c_str());
  EXPECT_EQ(count, 12288u);
  EXPECT_NE(why.find("TOO_MANY_ADDRESSES"), std::string::npos) << why;
  EXPECT_EQ(ExitOf({"--listen", directory(), "0"}, kService), 0) << "another one is served";
  greedy.Kill();
  testing::RemoveTree(place);
}

TEST_F(TenantTest, RootOfAnotherUserNamespaceHasNoRightsOfRoot) {
  if (!OtherUsers()) return;
  testing::DaemonOptions options;
  options.sections["core"] = "privileged-ports-below = 1024";
  StartBroker(options);
  EXPECT_EQ(ExitOf({"--privileged", directory()}), 0);
  const int foreign = ExitOf({"--privileged-foreign", directory()});
  if (foreign == kNoUserNamespace) {
    GTEST_SKIP() << "the kernel gives this process no user namespace: it runs under chroot, or "
                    "/proc/sys/user/max_user_namespaces forbids it";
  }
  EXPECT_EQ(foreign, 0);
}

}  // namespace
}  // namespace nd::service

int main(int argc, char** argv) {
  using namespace nd::service;
  const std::string mode = argc > 2 ? argv[1] : "", directory = argc > 2 ? argv[2] : "";
  if (mode == "--take-by-number") return TakeByNumber(directory);
  if (mode == "--listen" && argc > 3)
    return Listens(directory, static_cast<std::uint16_t>(std::stoi(argv[3])));
  if (mode == "--exhaust" && argc > 3) return Exhaust(directory, argv[3]);
  if (mode == "--privileged") return TakePrivileged(directory, false);
  if (mode == "--privileged-foreign") return TakePrivileged(directory, true);
  if (mode == "--peer") return nd::testing::KeepConnection(directory, kPort);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
