// SPDX-License-Identifier: Apache-2.0
// The states in which cases begin: a listener, a connection at each step, a connection that carries data.
#include "tests/conformance/world.h"

namespace nd::conformance {

Listener World::Listening(std::uint16_t port, std::uint32_t backlog) {
  Listener l = P().CreateListener();
  EXPECT_ND(l.Bind(p(port)), SUCCESS);
  EXPECT_ND(l.Listen(backlog), SUCCESS);
  return l;
}

Connector World::Bound(Actor& actor, const Address& local) {
  Connector c = actor.CreateConnector();
  EXPECT_ND(c.Bind(local), SUCCESS);
  return c;
}

Link World::Queued(const LinkArguments& arguments) {
  Link link;
  link.l = arguments.l ? arguments.l : Listening(arguments.port);
  link.to = p(arguments.port);
  link.a = arguments.a ? arguments.a : BoundA();
  link.aq = arguments.aq ? arguments.aq : A().CreateQp();
  link.pq = arguments.pq ? arguments.pq : P().CreateQp();
  for (std::uint32_t i = 1; i <= arguments.posted_receives; ++i) {
    EXPECT_ND(link.aq.Receive(i, i * 4096, 4096), SUCCESS);
    EXPECT_ND(link.pq.Receive(i, i * 4096, 4096), SUCCESS);
  }
  link.connect = link.a.Connect(link.aq, link.to, arguments.connect);
  EXPECT_ND(link.connect.inline_status(), PENDING);
  return link;
}

void World::Deliver(Link& link) {
  link.p = P().CreateConnector();
  EXPECT_ND(link.l.GetConnectionRequest(link.p), SUCCESS);
}

Link World::Incoming(const LinkArguments& arguments) {
  Link link = Queued(arguments);
  Deliver(link);
  return link;
}

void World::Reply(Link& link, const ConnectArguments& arguments) {
  link.accept = link.p.Accept(link.pq, arguments);
  EXPECT_ND(link.accept.inline_status(), PENDING);
  EXPECT_ND(link.connect, SUCCESS);
}

Link World::Replied(const LinkArguments& arguments) {
  Link link = Incoming(arguments);
  Reply(link, arguments.accept);
  return link;
}

void World::Complete(Link& link) {
  EXPECT_ND(link.a.CompleteConnect(), SUCCESS);
  EXPECT_ND(link.accept, SUCCESS);
}

Link World::Up(const LinkArguments& arguments) {
  Link link = Replied(arguments);
  Complete(link);
  return link;
}

void World::ExpectTraffic(const Link& link) {
  constexpr std::uint32_t kSize = 1000;
  const auto message = [&](Actor& from, const Qp& sender, Actor& to, const Qp& receiver, std::uint64_t seed) {
    from.Scratch().Fill(1 << 20, kSize, seed);
    EXPECT_ND(receiver.Receive(1000, 2 << 20, kSize), SUCCESS);
    EXPECT_ND(sender.Send(1001, 1 << 20, kSize), SUCCESS);
    const Work received = receiver.receive_cq.Next();
    EXPECT_ND(received, SUCCESS);
    EXPECT_EQ(received.context, 1000u);
    EXPECT_EQ(received.bytes, kSize);
    EXPECT_TRUE(to.Scratch().Check(2 << 20, kSize, seed)) << "the message arrived damaged";
    const Work sent = sender.cq.Next();
    EXPECT_ND(sent, SUCCESS);
    EXPECT_EQ(sent.context, 1001u);
  };
  Actor& a = link.aq.actor();
  Actor& p = link.pq.actor();
  message(a, link.aq, p, link.pq, 17);
  message(p, link.pq, a, link.aq, 42);
}
}  // namespace nd::conformance
