// SPDX-License-Identifier: Apache-2.0
// Drives a real broker to bounds of docs/limits.md and sees the refusal that the document names. rows.txt
// says which test belongs to which row; check.py compares.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/locate.h"
#include "base/unique_fd.h"
#include "nd/types.h"
#include "tests/testing/daemon.h"
#include "tests/testing/network.h"
#include "tests/testing/probe.h"
#include "tests/testing/process.h"

namespace nd::testing {
namespace {

constexpr char kAdapter[] = "name = \"soft0\"\naddresses = [\"127.0.0.1\"]";

std::string At(int port) {
  return TextAddress(Address::Parse("127.0.0.1").value().WithPort(static_cast<std::uint16_t>(port)));
}
std::string OpenedAdapter(RawClient& client) {
  return client.Do("open_adapter { name: \"soft0\" }")["completion.handle"];
}
// The number of successes of `make` before the first refusal, which goes to *refusal.
int UntilRefused(const std::function<Flat()>& make, Flat* refusal, int most = 100'000) {
  for (int made = 0; made < most; ++made) {
    *refusal = make();
    if (CodeOf(*refusal) != StatusCode::kSuccess) return made;
  }
  return most;
}

TEST(Limits, EachQuotaOfAUserRefusesByName) {
  Daemon broker(
      {.adapters = {kAdapter},
       .rules = {
           "name = \"all\"\nlisten = [\"*\"]\nconnect = [\"*\"]\nquota = { sessions = 2, connectors = 3, "
           "listeners = 4, shared-endpoints = 5, queue-pairs = 6, ports = 7 }"}});
  ASSERT_TRUE(broker.Start()) << broker.log();
  RawClient one(broker.directory()), two(broker.directory());
  ASSERT_EQ(one.error() + two.error(), "");
  RawClient three(broker.directory());
  EXPECT_NE(three.error().find("may hold 2 sessions"), std::string::npos) << three.error();
  const std::string adapter = OpenedAdapter(one), other = OpenedAdapter(two);
  Flat refusal;
  const auto expect = [&](const char* what, int total, int bound, const std::function<Flat()>& make) {
    EXPECT_EQ(UntilRefused(make, &refusal), bound) << what;
    EXPECT_EQ(CodeOf(refusal), StatusCode::kInsufficientResources) << what;
    EXPECT_NE(refusal["completion.status.message"].find(std::string("may hold ") + std::to_string(total) +
                                                        " " + what),
              std::string::npos)
        << what << ": " << refusal["completion.status.message"];
  };
  std::string connector;
  expect("connectors", 3, 3, [&] {
    Flat made = one.Do("create_connector { adapter: " + adapter + " }");
    if (!made["completion.handle"].empty()) connector = made["completion.handle"];
    return made;
  });
  expect("queue pairs", 6, 6, [&] {
    return one.Do("create_queue_pair { adapter: " + adapter +
                  " receive_queue_depth: 1 initiator_queue_depth: 1 }");
  });
  // The sessions of a user share its quota.
  EXPECT_EQ(CodeOf(two.Do("create_connector { adapter: " + other + " }")),
            StatusCode::kInsufficientResources);
  int port = 20'000;
  std::vector<std::string> listeners;
  expect("listeners", 4, 4, [&] {
    Flat made = one.Do("create_listener { adapter: " + adapter + " }");
    if (!made["completion.handle"].empty()) listeners.push_back(made["completion.handle"]);
    return made;
  });
  expect("shared endpoints", 5, 5, [&] {
    return two.Do("create_shared_endpoint { adapter: " + other + " local " + At(port++) + " }");
  });
  // Five endpoints hold five of seven ports.
  std::size_t next = 0;
  expect("ports", 7, 2,
         [&] { return one.Do("bind { handle: " + listeners.at(next++) + " local " + At(port++) + " }"); });
  // A port that is given back can be taken again.
  EXPECT_EQ(CodeOf(one.Do("close { handle: " + listeners[0] + " }")), StatusCode::kSuccess);
  EXPECT_EQ(CodeOf(one.Do("bind { handle: " + connector + " local " + At(port) + " }")),
            StatusCode::kSuccess);
}

TEST(Limits, OpenedAdaptersOfASessionAreBounded) {
  Daemon broker({.adapters = {kAdapter}});
  ASSERT_TRUE(broker.Start()) << broker.log();
  RawClient client(broker.directory()), other(broker.directory());
  Flat refusal;
  EXPECT_EQ(UntilRefused([&] { return client.Do("open_adapter { name: \"soft0\" }"); }, &refusal), 1024);
  EXPECT_EQ(CodeOf(refusal), StatusCode::kInsufficientResources);
  EXPECT_NE(OpenedAdapter(other), "");
}

TEST(Limits, PendingOperationsOfASessionAreBounded) {
  Daemon broker({.sections = {{"limits", "pending-operations = 16"}}, .adapters = {kAdapter}});
  ASSERT_TRUE(broker.Start()) << broker.log();
  RawClient client(broker.directory()), other(broker.directory());
  const std::string adapter = OpenedAdapter(client);
  const std::string listener = client.Do("create_listener { adapter: " + adapter + " }")["completion.handle"];
  ASSERT_EQ(CodeOf(client.Do("bind { handle: " + listener + " local " + At(0) + " }")), StatusCode::kSuccess);
  ASSERT_EQ(CodeOf(client.Do("listen { listener: " + listener + " }")), StatusCode::kSuccess);
  for (int i = 0; i < 16; ++i) {
    const std::string connector =
        client.Do("create_connector { adapter: " + adapter + " }")["completion.handle"];
    ASSERT_TRUE(client.Send("op_id: " + std::to_string(client.NewOp()) +
                            " get_connection_request { listener: " + listener + " connector: " + connector +
                            " }"));
  }
  EXPECT_EQ(CodeOf(client.Do("list_adapters {}")), StatusCode::kInsufficientResources);
  EXPECT_EQ(CodeOf(other.Do("list_adapters {}")), StatusCode::kSuccess);
}

// Buffers of gRPC and of the sockets take some events, the queue takes 16 more, the rest is counted as lost.
TEST(Limits, WatcherThatDoesNotReadLosesEvents) {
  Daemon broker({.sections = {{"limits", "watch-queue-events = 16"}}, .adapters = {kAdapter}});
  ASSERT_TRUE(broker.Start()) << broker.log();
  const std::string output = broker.directory() + "/../events";
  SpawnOptions options;
  options.arguments = {BinaryDirectory() + "/ndctl", "events", "-o", "json"};
  options.environment = {"NDBROKER_DIR=" + broker.directory()};
  options.output = output;
  Process watcher = Process::Spawn(options);
  const auto says = [&](const std::string& text) {
    std::ostringstream all;
    all << std::ifstream(output).rdbuf();
    return std::move(all).str().find(text) != std::string::npos;
  };
  // The watch has begun when it prints its first event.
  ASSERT_TRUE(Eventually([&] {
    RawClient client(broker.directory());
    return says("session.opened");
  }));
  watcher.Pause();
  for (int i = 0; i < 2500; ++i) RawClient client(broker.directory());
  watcher.Resume();
  EXPECT_TRUE(Eventually([&] {
    RawClient client(broker.directory());  // The event behind the gap says how many are missing.
    return says("\"lost\"");
  }));
}

// A socket that is connected to the broker's admin socket.
UniqueFd DialAdmin(const std::string& directory) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/admin.sock", directory.c_str());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}
bool IsClosed(const UniqueFd& fd) {
  char byte;
  ssize_t got;
  while ((got = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT)) > 0) {  // gRPC says hello first.
  }
  return got == 0 || (errno != EAGAIN && errno != EINTR);
}
int Closed(const std::vector<UniqueFd>& all) {
  int closed = 0;
  for (const UniqueFd& fd : all) closed += !fd || IsClosed(fd) ? 1 : 0;
  return closed;
}

TEST(Limits, ConnectionsOfTheAdminSocketAreBounded) {
  Daemon broker({.sections = {{"limits", "admin-connections = 8"}}, .adapters = {kAdapter}});
  ASSERT_TRUE(broker.Start()) << broker.log();
  Probe::Get().Forget(broker.directory());
  // An earlier connection of this test may still count. Eight connections find a place, four do not.
  std::vector<UniqueFd> all;
  EXPECT_TRUE(Eventually([&] {
    all.clear();
    for (int i = 0; i < 12; ++i) all.push_back(DialAdmin(broker.directory()));
    return Eventually([&] { return Closed(all) >= 4; }, std::chrono::milliseconds(200)) && Closed(all) == 4;
  }));
  all.clear();
  EXPECT_TRUE(Eventually([&] { return broker.Admin("GetStatus").ok(); })) << "places are given back";
}

TEST(Limits, AdministratorsOfOtherNamespacesAreBounded) {
  Daemon broker({.adapters = {kAdapter}});
  ASSERT_TRUE(broker.Start()) << broker.log();
  // A process in a network namespace of its own connects twenty times and reports how many connections were
  // closed.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) ::_exit(77);
    std::vector<UniqueFd> all;
    for (int i = 0; i < 20; ++i) all.push_back(DialAdmin(broker.directory()));
    static_cast<void>(Eventually([&] { return Closed(all) == 4; }));
    ::_exit(Closed(all));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "network namespaces are not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_TRUE(broker.Admin("GetStatus").ok()) << "administrators of this namespace have places of their own";
}

}  // namespace
}  // namespace nd::testing

// Each test has its broker at 127.0.0.1, so that the program needs a network of its own beside other tests.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!::testing::GTEST_FLAG(list_tests)) {
    const std::string error = nd::testing::EnterPrivateNetwork();
    if (!error.empty()) {
      std::fprintf(stderr, "limits_test: needs a network of its own: %s\n", error.c_str());
      return 77;  // ctest: skipped.
    }
  }
  return RUN_ALL_TESTS();
}
