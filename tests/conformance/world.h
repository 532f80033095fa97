// SPDX-License-Identifier: Apache-2.0
// The environment of a case: one or two brokers, the active client A, the passive client P, and connections
// in a given state. One thread.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/codes.h"
#include "tests/conformance/site.h"
#include "tests/testing/actor.h"
#include "tests/testing/daemon.h"
#include "tests/testing/network.h"

namespace nd::conformance {

using namespace nd::testing;  // NOLINT: every case speaks in its words.

// Local: A and P on one broker, shared memory. Iwarp: on two brokers, TCP between 127.0.0.2 and 127.0.0.3.
// Verbs: on two brokers, the RDMA devices of TheSite().
// Pods: A and P in network namespaces of their own, which one broker serves, as another user where that is
// possible; TCP. PodHost, HostPod: only A, only P; the other one is in the namespace of the broker.
enum class Transport { kLocal, kIwarp, kVerbs, kPods, kPodHost, kHostPod };
std::string NameOf(Transport transport);
// The transports of this run: that of --transport, by default both of soft.
std::vector<Transport>& Transports();

struct WorldOptions {
  std::map<std::string, std::string> sections{};  // Added to the defaults of both brokers.
  std::vector<std::string> rules{};               // Before the rule that allows everything.
  std::string adapter{};                 // Lines for the adapter of both brokers; Verbs: for [verbs].
  std::string adapter_a{}, adapter_p{};  // Only for A's and only for P's; Local: see `apart`.
  // On one broker the adapter of P is soft1, so that the two sides can have different adapters.
  bool apart = false;
  // Two hosts with a wire that the test controls: addresses 10.77.0.2 (A) and 10.77.0.3 (P).
  bool wired = false;
  std::optional<std::uint32_t> uid_a{}, uid_p{};
  bool no_clients = false;
};

// A connection and its objects.
struct Link {
  Listener l;
  Connector a, p;
  Qp aq, pq;
  Outcome connect, accept;
  Address to;  // Where P listens.
};

struct LinkArguments {
  ConnectArguments connect{}, accept{};
  std::uint16_t port = 7000;
  Qp aq{}, pq{};  // Made when not given.
  Connector a{};  // Bound, when given.
  Listener l{};   // Listening, when given.
  // Receives posted on each side before it connects, with contexts 1, 2, ...
  std::uint32_t posted_receives = 0;
};

class World {
 public:
  World(Transport transport, WorldOptions options = {});
  ~World();  // Calls Finish() and ends every process.
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  // The world that the cases of a transport share.
  static World& Shared(Transport transport);
  static void Forget();
  // "" or the reason why this world could not be made, such as missing privileges for a wire.
  const std::string& error() const { return error_; }

  // Called before and after a case. They check that clients are alive and without objects and that all counts
  // are equal.
  void Begin();
  void Finish();

  Transport transport() const { return transport_; }
  bool local() const { return transport_ == Transport::kLocal; }
  bool verbs() const { return transport_ == Transport::kVerbs; }
  // Returns true when this side, or any side, is in a served network namespace.
  bool pod(int side) const {
    return transport_ == Transport::kPods ||
           transport_ == (side == 0 ? Transport::kPodHost : Transport::kHostPod);
  }
  bool pods() const { return pod(0) || pod(1); }
  // True on RDMA devices without two phases, where the reply establishes the connection (docs/verbs.md).
  bool one_phase();
  Daemon& broker_a() { return *brokers_.front(); }
  Daemon& broker_p() { return *brokers_.back(); }
  Wire& wire() { return *wire_; }
  // For Ip(): the namespaces of a wired world and the interfaces at the ends of its wire.
  int host_a() const { return hosts_.empty() ? -1 : hosts_[0]->fd(); }
  int host_p() const { return hosts_.empty() ? -1 : hosts_[1]->fd(); }
  std::string wire_a() const { return verbs() ? TheSite().far[0] : "wire"; }

  // The names of the adapters of A and P, and of another adapter of the same broker.
  std::string adapter_a() const { return AdapterName(0, false); }
  std::string adapter_p() const { return AdapterName(1, false); }
  std::string other_a() const { return AdapterName(0, true); }
  std::string other_p() const { return AdapterName(1, true); }
  // Their addresses. second: another address of the same adapter; other: an address of the other adapter.
  Address a(std::uint16_t port = 0) const { return At(0, port); }
  Address p(std::uint16_t port = 0) const { return At(1, port); }
  Address a_second(std::uint16_t port = 0) const;
  Address p_second(std::uint16_t port = 0) const;
  Address a_other(std::uint16_t port = 0) const;
  Address p_other(std::uint16_t port = 0) const;
  bool has_ipv6() const;
  Address a6(std::uint16_t port = 0) const;
  Address p6(std::uint16_t port = 0) const;
  static Address Ip(const std::string& text, std::uint16_t port = 0);

  Actor& A() { return *clients_[0]; }
  Actor& P() { return *clients_[1]; }
  // One more client of the broker of A or P, until the end of the case.
  Actor& Extra(bool at_p = false, ActorOptions options = {});

  Listener Listening(std::uint16_t port = 7000, std::uint32_t backlog = 0);
  Connector Bound(Actor& actor, const Address& local);
  Connector BoundA() { return Bound(A(), a()); }
  // Connections in these states: queued at the listener of P; delivered to P; accepted by P; established.
  Link Queued(const LinkArguments& arguments = {});
  Link Incoming(const LinkArguments& arguments = {});
  Link Replied(const LinkArguments& arguments = {});
  Link Up(const LinkArguments& arguments = {});
  // Takes the queued request of link.l; link.p is in Incoming.
  void Deliver(Link& link);
  void Reply(Link& link, const ConnectArguments& arguments = {});
  void Complete(Link& link);
  // The kernel of an RDMA device retransmits to a silent peer for 69 s.
  milliseconds silence(int otherwise) const { return milliseconds(verbs() ? 60'000 : otherwise); }
  // The status for a destination without a route. On devices Linux takes it for a neighbour of the bound
  // device.
  StatusCode no_route() const { return verbs() ? HOST_UNREACHABLE : NETWORK_UNREACHABLE; }
  // The queue pair to connect after a refusal: the same one, or a new one if the device cannot reuse it
  // (EXCEPTIONS.md).
  Qp Again(const Qp& qp) { return one_phase() ? qp.actor().CreateQp() : qp; }
  // A message each way, checked, through new receives and sends with contexts 1000 and 1001.
  void ExpectTraffic(const Link& link);

  // Stops the process that answers a disconnect: that of P, or on devices the broker of P.
  void Silence(bool silent);

  // A field of the connection from `local` (to `peer`) as the admin service shows it; "" when there is none.
  std::string FieldOf(Daemon& broker, const std::string& field, const Address& local,
                      const Address& peer = {});
  std::string StateOf(Daemon& broker, const Address& local, const Address& peer = {}) {
    return FieldOf(broker, "state", local, peer);
  }
  std::uint64_t Counter(Daemon& broker, const std::string& name);

 private:
  Address At(int side, std::uint16_t port) const;
  std::string AdapterName(int side, bool other) const;
  const SiteAdapter& Device(int side) const;
  bool OnOther(int side) const { return options_.apart && side == 1 && local() && !options_.wired; }
  void MakePods();
  void MakeBrokers();
  DaemonOptions SoftAdapters(DaemonOptions daemon, std::size_t i, std::size_t count) const;
  DaemonOptions Devices(DaemonOptions daemon, std::size_t i) const;
  void Revive(int side);
  void WarmUp();
  std::vector<std::size_t> ClientDescriptors();
  Transport transport_;
  WorldOptions options_;
  bool warm_ = false;
  int number_ = 0;  // The number of the world in this process; several may exist at once.
  std::string error_;
  std::vector<std::unique_ptr<Namespace>> hosts_;   // Null: the namespace of this process.
  std::string net_ = "10.77.0.", net6_ = "fd77::";  // Of pods, different for each world of this process.
  std::unique_ptr<Wire> wire_;
  std::vector<std::unique_ptr<Daemon>> brokers_;
  std::vector<std::unique_ptr<Actor>> clients_;
  std::vector<std::unique_ptr<Actor>> extra_;
  std::vector<Counts> before_;
  std::vector<std::size_t> descriptors_before_;
};

::testing::AssertionResult Matches(const Status& status, std::initializer_list<StatusCode> any_of);
::testing::AssertionResult Matches(const Outcome& outcome, std::initializer_list<StatusCode> any_of);
template <typename T>
::testing::AssertionResult Matches(const Result<T>& result, std::initializer_list<StatusCode> any_of) {
  return Matches(result.ok() ? Status() : result.status(), any_of);
}
::testing::AssertionResult Matches(const Work& work, std::initializer_list<StatusCode> any_of);

// Waits for the final status of a call and checks that it is one of these. Where documents conflict, the
// first one is the default of ndbroker, and only it is listed unless both may happen.
#define EXPECT_ND(call, ...) EXPECT_TRUE(::nd::conformance::Matches((call), {__VA_ARGS__}))
#define ASSERT_ND(call, ...) ASSERT_TRUE(::nd::conformance::Matches((call), {__VA_ARGS__}))
// Checks that the operation was accepted and is not complete.
#define EXPECT_PENDING(outcome)                                \
  do {                                                         \
    const ::nd::testing::Outcome& pending_outcome = (outcome); \
    EXPECT_ND(pending_outcome.inline_status(), PENDING);       \
    EXPECT_TRUE(pending_outcome.pending()) << #outcome;        \
  } while (false)

// The fixture of every case: the shared world before it, the common checks after it.
class Case : public ::testing::TestWithParam<Transport> {
 protected:
  Case() : w(World::Shared(GetParam())), A(w.A()), P(w.P()) {}
  void SetUp() override { w.Begin(); }
  void TearDown() override { w.Finish(); }
  bool local() const { return w.local(); }
  World& w;
  Actor& A;
  Actor& P;
};

// A case that needs brokers of its own makes its own World.
class OwnWorld : public ::testing::TestWithParam<Transport> {};

// Skips a case that cannot exist here (EXCEPTIONS.md). The summary distinguishes it from other skips.
#define ND_EXCEPTED() \
  if (::testing::Test::RecordProperty("excepted", "yes"), true) GTEST_SKIP()

// For cases with networks or users that the test makes.
#define ND_NEEDS_NAMESPACES(number)                                                      \
  if (!HasNetworkNamespaces())                                                           \
    ND_EXCEPTED() << "EXCEPTED " number ": the system has the network of its host only"; \
  if (!InPrivateNetwork()) GTEST_SKIP() << "SKIPPED " number ": network namespaces are not allowed here"
#define ND_NEEDS_USERS(number)                                                     \
  if (!HasNetworkNamespaces())                                                     \
    ND_EXCEPTED() << "EXCEPTED " number ": the suite has one user on this system"; \
  if (!CanBeAnotherUser()) GTEST_SKIP() << "SKIPPED " number ": needs root to be another user"

// For cases with packet loss: a wire that the test controls.
#define ND_NEEDS_WIRE(number)                                                                      \
  if (GetParam() == Transport::kLocal)                                                             \
    ND_EXCEPTED() << "EXCEPTED " number ": there is no network between two clients of one broker"; \
  if (GetParam() == Transport::kVerbs && !TheSite().wired())                                       \
    ND_EXCEPTED() << "EXCEPTED " number ": these adapters have no wire that a test could hold";    \
  ND_NEEDS_NAMESPACES(number)

// For cases between the reply and its confirmation; `w` is the world.
#define ND_NEEDS_TWO_PHASES(number) \
  if (w.one_phase())                \
  ND_EXCEPTED() << "EXCEPTED " number ": the adapter has no two phases, the reply is the connection (132)"

// For cases with memory windows; an adapter without them returns NOT_SUPPORTED.
#define ND_NEEDS_WINDOWS(number)                                                           \
  if (w.A().Info().max_window_size == 0) {                                                 \
    EXPECT_ND(w.A().CreateWindow().status(), NOT_SUPPORTED);                               \
    ND_EXCEPTED() << "EXCEPTED " number ": the adapter has no memory windows and says so"; \
  }

// NOLINTBEGIN(bugprone-macro-parentheses): names.
#define ND_GROUP(group)                                                          \
  class group : public Case {};                                                  \
  class group##Own : public OwnWorld {};                                         \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(group##Own);                     \
  INSTANTIATE_TEST_SUITE_P(group, group, ::testing::ValuesIn(Transports()),      \
                           [](const auto& test) { return NameOf(test.param); }); \
  INSTANTIATE_TEST_SUITE_P(group, group##Own, ::testing::ValuesIn(Transports()), \
                           [](const auto& test) { return NameOf(test.param); })
// NOLINTEND(bugprone-macro-parentheses)

inline constexpr std::uint32_t kSockaddrIn = 16;  // sizeof(sockaddr_in)

// For RawClient: opens A's adapter.
inline std::string OpenText(const World& w) {
  return "open_adapter { name: \"" + w.adapter_a() + "\" }";
}

// The number of rounds of a heavy case: all with NDBROKER_FULL=1, fewer when NDBROKER_TIME_FACTOR names a
// slow machine (table in README.md).
int Rounds(int by_default, int full, int emulated);
bool Full();

}  // namespace nd::conformance
