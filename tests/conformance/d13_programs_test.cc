// SPDX-License-Identifier: Apache-2.0
// d.13 Re-creations of the Microsoft programs, by behaviour.
#include <algorithm>
#include <sstream>

#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D13);

std::string From(World& w) {
  return " from=" + w.a().IpToString() + " fromport=0";
}
std::string At(World& w) {
  return " ip=" + w.p().IpToString() + " port=7000";
}
bool ServerListens(World& w) {
  return Eventually([&] { return w.broker_p().Count().listeners == 1; });
}
bool Ok(const std::string& report) {
  return report.substr(0, 3) == "ok ";
}

TEST_P(D13, ND_233_Ndconn) {
  const std::uint32_t server = P.StartProgram(
      "accept_loop", "broker=" + w.broker_p().directory() + At(w) + " mode=message threads=6 backlog=8");
  ASSERT_TRUE(ServerListens(w));
  const std::string client =
      A.Program("connect_loop", "broker=" + w.broker_a().directory() + At(w) + From(w) +
                                    " mode=message threads=4 seconds=" + std::to_string(Rounds(5, 60, 3)));
  EXPECT_TRUE(Ok(client)) << client;
  RecordProperty("client", client);
  const std::string served = P.JoinProgram(server, milliseconds(30'000));
  EXPECT_TRUE(Ok(served)) << served;
}

TEST_P(D13, ND_234_Ndcq) {
  EXPECT_EQ(A.Program("cancel_order",
                      "broker=" + w.broker_a().directory() + " ip=" + w.a().IpToString() + " rounds=50"),
            "ok");
  // A queue armed for SOLICITED does not fire for an ordinary message; armed for ANY as well, it fires.
  const Link up = w.Up();
  EXPECT_ND(up.pq.Receive(1), SUCCESS);
  EXPECT_ND(up.pq.cq.Notify(NotifyType::kSolicited), SUCCESS);
  EXPECT_ND(up.aq.Send(2), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
  EXPECT_FALSE(up.pq.cq.Notified(milliseconds(20)));
  EXPECT_ND(up.pq.cq.Notify(NotifyType::kAny), SUCCESS);
  EXPECT_TRUE(up.pq.cq.Notified(milliseconds(5000)));
  up.pq.cq.ConsumeNotification();
  EXPECT_ND(up.pq.cq.Next(), SUCCESS);
  if (w.one_phase()) return;  // EXCEPTIONS.md
  EXPECT_ND(up.pq.Receive(3), SUCCESS);
  EXPECT_ND(up.pq.cq.Notify(NotifyType::kSolicited), SUCCESS);
  EXPECT_ND(up.aq.Send(4, 0, 64, kOpSendAndSolicit), SUCCESS);
  EXPECT_TRUE(up.pq.cq.Notified(milliseconds(5000)));
  EXPECT_ND(up.pq.cq.Next(), SUCCESS);
}

TEST_P(D13, ND_235_Ndmpic) {
  constexpr int kRanks = 4;
  struct Rank {
    Actor* actor;
    Address address;
    Listener l;
  };
  std::vector<Rank> ranks;
  for (int i = 0; i < kRanks; ++i) {
    const bool at_p = i % 2 == 1;
    Actor& actor = i == 0 ? A : i == 1 ? P : w.Extra(at_p);
    if (i > 1) {
      ASSERT_ND(actor.Open(), SUCCESS);
    }
    const auto port = static_cast<std::uint16_t>(7000 + i);
    Rank rank{&actor, at_p ? w.p(port) : w.a(port), actor.CreateListener()};
    EXPECT_ND(rank.l.Bind(rank.address), SUCCESS);
    EXPECT_ND(rank.l.Listen(), SUCCESS);
    ranks.push_back(rank);
  }
  for (int low = 0; low < kRanks; ++low) {
    for (int high = low + 1; high < kRanks; ++high) {
      SCOPED_TRACE(std::to_string(low) + " and " + std::to_string(high));
      Rank &one = ranks[static_cast<std::size_t>(low)], &two = ranks[static_cast<std::size_t>(high)];
      const auto attempt = [&](Rank& from, Rank& to) {
        Link link;
        link.a = w.Bound(*from.actor, from.address.WithPort(0));
        link.aq = from.actor->CreateQp();
        link.pq = to.actor->CreateQp();
        link.p = to.actor->CreateConnector();
        EXPECT_ND(link.aq.Receive(1), SUCCESS);
        link.connect = link.a.Connect(link.aq, to.address, {.data = std::string(39, 'r')});
        EXPECT_ND(to.l.GetConnectionRequest(link.p), SUCCESS);
        EXPECT_EQ(link.p.PrivateData().value(), std::string(39, 'r'));
        return link;
      };
      Link loser = attempt(one, two), winner = attempt(two, one);
      EXPECT_ND(loser.p.Reject(), SUCCESS);
      EXPECT_ND(loser.connect, CONNECTION_REFUSED);
      EXPECT_ND(loser.aq.Flush(), SUCCESS);
      EXPECT_ND(loser.aq.cq.Next(), CANCELED);
      w.Reply(winner);
      w.Complete(winner);
      const Work none = winner.aq.cq.Next(milliseconds(0));
      EXPECT_EQ(none.status, StatusCode::kPending);
      // close, ack, then both disconnect.
      EXPECT_ND(winner.pq.Receive(5), SUCCESS);
      EXPECT_ND(winner.aq.Send(6), SUCCESS);
      EXPECT_ND(winner.pq.cq.Next(), SUCCESS);
      EXPECT_ND(winner.aq.cq.Next(), SUCCESS);
      EXPECT_ND(winner.pq.Send(7), SUCCESS);
      EXPECT_ND(winner.pq.cq.Next(), SUCCESS);
      EXPECT_ND(winner.aq.cq.Next(), SUCCESS);
      const Outcome bye = winner.a.Disconnect(), answer = winner.p.Disconnect();
      EXPECT_ND(bye, SUCCESS);
      EXPECT_ND(answer, SUCCESS);
    }
  }
}

TEST_P(D13, ND_236_Ndmval) {
  const Link up = w.Up();
  EXPECT_ND(up.pq.Receive(1, 0, 1023), SUCCESS);
  EXPECT_ND(up.aq.Send(2, 0, 1024), SUCCESS);
  EXPECT_ND(up.pq.cq.Next(), BUFFER_OVERFLOW, w.verbs() ? DATA_OVERRUN : BUFFER_OVERFLOW);
  // An RDMA device may say nothing of it (siw), or see the connection end first.
  EXPECT_ND(up.aq.cq.Next(), REMOTE_ERROR, w.verbs() ? SUCCESS : REMOTE_ERROR,
            w.verbs() ? CANCELED : REMOTE_ERROR);
  const Outcome bye = up.a.Disconnect(), answer = up.p.Disconnect();
  EXPECT_ND(bye, SUCCESS);
  EXPECT_ND(answer, SUCCESS);
}

TEST_P(D13, ND_237_Ndmw) {
  ND_NEEDS_WINDOWS("237");
  Link link = w.Incoming({.connect = {.data = std::string(36, 'w')}});
  EXPECT_EQ(link.p.GetPrivateData(0, true).length, 36u);
  w.Reply(link, {.data = std::string(36, 'v')});
  EXPECT_EQ(link.a.GetPrivateData(0, true).length, 36u);
  w.Complete(link);
  const auto size =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(64 << 20, A.Info().max_transfer_length));
  constexpr std::uint32_t kAll = kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink;
  const Memory source = A.Allocate(size, kAll), target = P.Allocate(size, kAllowLocalWrite);
  const Window window = P.CreateWindow();
  EXPECT_ND(link.pq.BindWindow(1, target, window, 0, size, kOpAllowRead | kOpAllowWrite), SUCCESS);
  EXPECT_ND(link.pq.cq.Next(), SUCCESS);
  source.Fill(0, size, 3);
  EXPECT_ND(link.aq.Post(RequestType::kWrite, 2, {{source.id(), 0, size}}, target.address, window.token()),
            SUCCESS);
  EXPECT_ND(link.aq.cq.Next(milliseconds(30'000)), SUCCESS);
  EXPECT_TRUE(target.Check(0, size, 3));
  source.Fill(0, size, 4);
  EXPECT_ND(link.aq.Post(RequestType::kRead, 3, {{source.id(), 0, size}}, target.address, window.token()),
            SUCCESS);
  EXPECT_ND(link.aq.cq.Next(milliseconds(30'000)), SUCCESS);
  EXPECT_TRUE(source.Check(0, size, 3));
  const std::uint32_t stale = window.token();
  EXPECT_ND(link.pq.Invalidate(4, window), SUCCESS);
  EXPECT_ND(link.pq.cq.Next(), SUCCESS);
  EXPECT_ND(link.aq.Post(RequestType::kWrite, 5, {{source.id(), 0, 64}}, target.address, stale), SUCCESS);
  EXPECT_ND(link.aq.cq.Next(), ACCESS_VIOLATION);
}

TEST_P(D13, ND_238_NdQpMax) {
  const AdapterInfo info = A.Info();
  const Cq cq = A.CreateCq(info.max_completion_queue_depth);
  ASSERT_ND(cq.status(), SUCCESS);
  const QpArguments most{.cq = cq,
                         .receive_depth = info.max_receive_queue_depth,
                         .initiator_depth = info.max_initiator_queue_depth,
                         .receive_sge = info.max_receive_sge,
                         .initiator_sge = info.max_initiator_sge,
                         .inline_size = info.max_inline_data_size};
  EXPECT_ND(A.CreateQp(most).status(), SUCCESS);
  EXPECT_FALSE(A.CreateCq(info.max_completion_queue_depth + 1).status().ok());
  const auto fails = [&](auto change) {
    QpArguments more = most;
    change(more);
    const Status status = A.CreateQp(more).status();
    EXPECT_TRUE(status.code() >= StatusCode::kInvalidParameter1 &&
                status.code() <= StatusCode::kInvalidParameter10)
        << status.ToString();
  };
  fails([](QpArguments& q) { ++q.receive_depth; });
  fails([](QpArguments& q) { ++q.initiator_depth; });
  fails([](QpArguments& q) { ++q.receive_sge; });
  fails([](QpArguments& q) { ++q.initiator_sge; });
  fails([](QpArguments& q) { ++q.inline_size; });
}

// An access violation: the initiator gets its status, and the connection ends with the posted requests.
void ExpectViolation(World& w, std::uint32_t access, bool write, std::uint64_t offset, std::uint32_t length,
                     bool wrong_token, std::vector<StatusCode> any_of) {
  // On iWARP a Write completes when it is sent; its error arrives in the Terminate of the peer, after which
  // siw cancels.
  if (w.one_phase()) any_of.push_back(write ? SUCCESS : CANCELED);
  const Link up = w.Up({.posted_receives = 1});
  const Memory target = w.P().Allocate(4096, access);
  ASSERT_ND(target.status(), SUCCESS);
  const RequestType type = write ? RequestType::kWrite : RequestType::kRead;
  const std::uint32_t token = wrong_token ? target.token ^ 0x5A5A00 : target.token;
  EXPECT_ND(up.aq.Post(type, 9, {{w.A().Scratch().id(), 0, length}}, target.address + offset, token),
            SUCCESS);
  Work work = up.aq.cq.Next();
  while (work.context != 9 && work.status != StatusCode::kPending) work = up.aq.cq.Next();
  EXPECT_TRUE(std::find(any_of.begin(), any_of.end(), work.status) != any_of.end()) << Name(work.status);
  EXPECT_ND(up.p.NotifyDisconnect(), SUCCESS);
  EXPECT_ND(up.p.Disconnect(), SUCCESS);
  EXPECT_ND(up.pq.cq.Next(), CANCELED);
  EXPECT_ND(up.l.Close().inline_status(), SUCCESS, PENDING);
  w.A().Reset();
  w.P().Reset();
}

TEST_P(D13, ND_239_Violations) {
  constexpr std::uint32_t kBoth = kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite;
  {
    SCOPED_TRACE("over-read");
    ExpectViolation(w, kBoth, false, 4000, 200, false, {ACCESS_VIOLATION, REMOTE_ERROR});
  }
  {
    SCOPED_TRACE("over-write");
    ExpectViolation(w, kBoth, true, 4000, 200, false, {ACCESS_VIOLATION});
  }
  {
    SCOPED_TRACE("invalid token read");
    ExpectViolation(w, kBoth, false, 0, 64, true, {ACCESS_VIOLATION});
  }
  {
    SCOPED_TRACE("invalid token write");
    ExpectViolation(w, kBoth, true, 0, 64, true, {ACCESS_VIOLATION});
  }
  {
    SCOPED_TRACE("write without right");
    ExpectViolation(w, kAllowLocalWrite | kAllowRemoteRead, true, 0, 64, false, {ACCESS_VIOLATION});
  }
  if (!w.one_phase()) {  // siw does not check.
    SCOPED_TRACE("read without right");
    ExpectViolation(w, kAllowLocalWrite | kAllowRemoteWrite, false, 0, 64, false, {ACCESS_VIOLATION});
  }
}

TEST_P(D13, ND_240_MemoryRegions) {
  EXPECT_ND(A.RegisterRaw(0, 4096, kAllowLocalWrite), INVALID_PARAMETER);
  EXPECT_ND(A.RegisterRaw(0x10000, 0, kAllowLocalWrite), INVALID_BUFFER_SIZE);
  ND_NEEDS_WINDOWS("240");
  const Link up = w.Up();
  const Memory memory = A.Allocate(4096, kAllowLocalWrite | kAllowRemoteRead);
  const Window window = A.CreateWindow();
  EXPECT_ND(up.aq.BindWindow(1, memory, window, 0, 64, kOpAllowRead), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
  EXPECT_ND(memory.Deregister(), DEVICE_BUSY);
}

TEST_P(D13, ND_241_SendNoReceive) {
  const Link up = w.Up();
  EXPECT_ND(up.aq.Send(1, 0, 100), SUCCESS);
  if (w.one_phase()) {
    EXPECT_ND(up.aq.cq.Next(), SUCCESS, CANCELED);  // On siw the receiver ends the connection.
    EXPECT_ND(up.a.NotifyDisconnect(), SUCCESS);
    return;
  }
  EXPECT_ND(up.aq.cq.Next(), IO_TIMEOUT);
  EXPECT_TRUE(up.pq.cq.Poll().empty());
}

TEST_P(D13, ND_242_ReceiveConnClosed) {
  const Link up = w.Up({.posted_receives = 1});
  const Outcome bye = up.a.Disconnect();
  EXPECT_ND(up.p.NotifyDisconnect(), SUCCESS);
  EXPECT_ND(up.p.Disconnect(), SUCCESS);
  EXPECT_ND(up.pq.cq.Next(), CANCELED);
  EXPECT_ND(bye, SUCCESS);
}

TEST_P(D13, ND_243_PingPrograms) {
  for (const char* notified : {"0", "1"}) {
    SCOPED_TRACE(notified);
    const std::string with = " notified=" + std::string(notified);
    const std::uint32_t server =
        P.StartProgram("rate_server", "broker=" + w.broker_p().directory() + At(w) + with);
    const std::string client =
        A.Program("rate_client", "broker=" + w.broker_a().directory() + At(w) + From(w) + with +
                                     " rounds=" + std::to_string(Rounds(10, 200, 2)));
    EXPECT_TRUE(Ok(client)) << client;
    EXPECT_EQ(P.JoinProgram(server, milliseconds(10'000)), client);
  }
}

TEST_P(D13, ND_244_RegistrationRate) {
  const std::string report =
      A.Program("registration_loop", "broker=" + w.broker_a().directory() +
                                         " milliseconds=" + std::to_string(Rounds(1000, 60'000, 1000)));
  EXPECT_TRUE(Ok(report)) << report;
}

TEST_P(D13, ND_245_AdapterInfo) {
  const AdapterInfo info = A.Info();
  EXPECT_EQ(info.name, w.adapter_a());
  EXPECT_EQ(info.provider, w.verbs() ? "verbs" : "soft");
  if (!w.verbs()) {
    EXPECT_EQ(info.technology, RdmaTechnology::kIwarp);
  }
  EXPECT_NE(info.flags & kAdapterLoopback, 0u);
  for (const std::uint64_t value :
       {info.adapter_id, std::uint64_t{info.vendor_id}, std::uint64_t{w.verbs() ? 1 : info.device_id},
        info.max_registration_size, std::uint64_t{info.max_initiator_sge},
        std::uint64_t{info.max_receive_sge}, std::uint64_t{info.max_read_sge},
        std::uint64_t{info.max_transfer_length}, std::uint64_t{info.max_inline_data_size},
        std::uint64_t{info.max_receive_queue_depth}, std::uint64_t{info.max_initiator_queue_depth},
        std::uint64_t{info.max_shared_receive_queue_depth}, std::uint64_t{info.max_completion_queue_depth},
        std::uint64_t{info.max_inbound_read_limit}, std::uint64_t{info.max_outbound_read_limit}}) {
    EXPECT_NE(value, 0u);
  }
  // Cases 068, 108 and 124 test the adapter against these numbers.
  const bool fixed_fields = w.verbs() && info.technology != RdmaTechnology::kIwarp;  // docs/verbs.md.
  EXPECT_EQ(info.max_caller_data, !w.verbs() ? 240u : fixed_fields ? 54u : 251u);
  EXPECT_EQ(info.max_callee_data, !w.verbs() ? 240u : fixed_fields ? 146u : 251u);
  if (!w.verbs()) {
    EXPECT_NE(info.max_window_size, 0u);
  }
  EXPECT_FALSE(info.addresses.empty());
  int exit_status = -1;
  const std::string shown = w.broker_a().Ndctl("adapter show " + w.adapter_a() + " -o json", &exit_status);
  EXPECT_EQ(exit_status, 0) << shown;
  EXPECT_NE(shown.find(w.adapter_a()), std::string::npos);
}

TEST_P(D13, ND_246_Ndcat) {
  const std::vector<Address> list = A.QueryAddressList().value();
  EXPECT_FALSE(list.empty());
  const std::vector<Address> own = A.Info().addresses;
  for (const Address& address : own) {
    EXPECT_EQ(std::count(list.begin(), list.end(), address), 1) << address.ToString();
    EXPECT_ND(A.CheckAddress(address), SUCCESS);
  }
  EXPECT_ND(A.CheckAddress(World::Ip("198.51.100.7")), INVALID_ADDRESS);
  EXPECT_ND(A.CheckAddress(w.a_other()), INVALID_ADDRESS);
  if (!w.verbs()) {  // On devices both hosts are one kernel, which routes its own addresses locally.
    EXPECT_TRUE(A.ResolveAddress(w.p()).value().same_ip(w.a()) || local());
  }
}

}  // namespace
}  // namespace nd::conformance
