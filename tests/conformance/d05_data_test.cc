// SPDX-License-Identifier: Apache-2.0
// d.5 Private data and addresses. soft keeps exact lengths, so there is no padding.
#include <algorithm>

#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D05);

std::string Data(std::size_t length, char seed) {
  std::string data;
  for (std::size_t i = 0; i < length; ++i) data += static_cast<char>(seed + static_cast<char>(i * 7));
  return data;
}

TEST_P(D05, ND_097_ConnectData) {
  const Listener l = w.Listening();
  for (const std::size_t length :
       {std::size_t{1}, std::size_t{36}, std::size_t{39}, std::size_t{A.Info().max_caller_data}}) {
    const Link link = w.Incoming({.connect = {.data = Data(length, 'a')}, .l = l});
    EXPECT_EQ(link.p.PrivateData().value(), Data(length, 'a'));
  }
}

TEST_P(D05, ND_098_AcceptData) {
  const Listener l = w.Listening();
  for (const std::size_t length :
       {std::size_t{1}, std::size_t{36}, std::size_t{39}, std::size_t{P.Info().max_callee_data}}) {
    const Link link = w.Replied({.accept = {.data = Data(length, 'b')}, .l = l});
    EXPECT_EQ(link.a.PrivateData().value(), Data(length, 'b'));
  }
}

TEST_P(D05, ND_099_RejectData) {
  const Listener l = w.Listening();
  for (const std::size_t length :
       {std::size_t{1}, std::size_t{36}, std::size_t{39}, std::size_t{P.Info().max_callee_data}}) {
    const Link link = w.Incoming({.l = l});
    EXPECT_ND(link.p.Reject(Data(length, 'c')), SUCCESS);
    EXPECT_ND(link.connect, CONNECTION_REFUSED);
    EXPECT_EQ(link.a.PrivateData().value(), Data(length, 'c'));
    const Link again = w.Replied({.accept = {.data = "yes"}, .aq = w.Again(link.aq), .a = link.a, .l = l});
    EXPECT_EQ(again.a.PrivateData().value(), "yes");
  }
}

TEST_P(D05, ND_100_SizeFirst) {
  const Link link = w.Incoming({.connect = {.data = Data(36, 'd')}});
  const Object::Raw size = link.p.GetPrivateData(0, true);
  EXPECT_ND(size.status, BUFFER_OVERFLOW);
  EXPECT_EQ(size.length, 36u);
  const Object::Raw exact = link.p.GetPrivateData(36);
  EXPECT_ND(exact.status, SUCCESS);
  EXPECT_EQ(exact.bytes.substr(0, 36), Data(36, 'd'));
}

TEST_P(D05, ND_101_HalfBuffer) {
  const Link link = w.Incoming({.connect = {.data = Data(36, 'e')}});
  const Object::Raw half = link.p.GetPrivateData(18);
  EXPECT_ND(half.status, BUFFER_OVERFLOW);
  EXPECT_EQ(half.length, 36u);
  EXPECT_EQ(half.bytes.substr(0, 18), Data(36, 'e').substr(0, 18));
  EXPECT_TRUE(half.untouched(18));
}

TEST_P(D05, ND_102_OversizedBuffer) {
  const Link link = w.Incoming({.connect = {.data = Data(36, 'f')}});
  const Object::Raw large = link.p.GetPrivateData(200);
  EXPECT_ND(large.status, SUCCESS);
  EXPECT_EQ(large.length, 36u);
  EXPECT_EQ(large.bytes.substr(0, 36), Data(36, 'f'));
  EXPECT_TRUE(large.untouched(36));
}

TEST_P(D05, ND_103_NdkConnectionData) {
  const Link link = w.Incoming({.connect = {.data = Data(36, 'g')}});
  Object::Raw data = link.p.NdkGetConnectionData(0, true).data;
  EXPECT_ND(data.status, SUCCESS);
  EXPECT_EQ(data.length, 36u);
  data = link.p.NdkGetConnectionData(10).data;
  EXPECT_ND(data.status, BUFFER_TOO_SMALL);
  EXPECT_EQ(data.length, 36u);
  EXPECT_EQ(data.bytes.substr(0, 10), Data(36, 'g').substr(0, 10));
  EXPECT_TRUE(data.untouched(10));
  EXPECT_ND(link.p.NdkGetConnectionData(10, true).data.status, INVALID_PARAMETER);
  data = link.p.NdkGetConnectionData(36).data;
  EXPECT_ND(data.status, SUCCESS);
  EXPECT_EQ(data.bytes.substr(0, 36), Data(36, 'g'));
}

TEST_P(D05, ND_104_NoData) {
  const Link link = w.Replied();
  for (const Connector& c : {link.p, link.a}) {
    const Object::Raw raw = c.GetPrivateData(0, true);
    EXPECT_ND(raw.status, SUCCESS);
    EXPECT_EQ(raw.length, 0u);
    EXPECT_EQ(c.PrivateData().value(), "");
  }
}

TEST_P(D05, ND_105_NoDataYet) {
  EXPECT_ND(A.CreateConnector().GetPrivateData(10).status, CONNECTION_INVALID);
  EXPECT_ND(w.BoundA().GetPrivateData(10).status, CONNECTION_INVALID);
  EXPECT_ND(w.Queued().a.GetPrivateData(10).status, CONNECTION_INVALID);
}

TEST_P(D05, ND_106_DataStays) {
  const Link link = w.Incoming({.connect = {.data = "again"}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(link.p.PrivateData().value(), "again");
}

TEST_P(D05, ND_107_DataAfterConnected) {
  const Link up = w.Up({.connect = {.data = "from A"}, .accept = {.data = "from P"}});
  EXPECT_EQ(up.p.PrivateData().value(), "from A");
  EXPECT_EQ(up.a.PrivateData().value(), "from P");
}

TEST_P(D05, ND_108_AcceptDataTooLong) {
  Link link = w.Incoming();
  const std::uint32_t max = P.Info().max_callee_data;
  EXPECT_ND(link.p.Accept(link.pq, {.data = std::string(max + 1, 'x')}), INVALID_BUFFER_SIZE);
  EXPECT_ND(link.p.GetReadLimits().status, SUCCESS);
  w.Reply(link, {.data = std::string(max, 'x')});
  EXPECT_EQ(link.a.PrivateData().value(), std::string(max, 'x'));
  w.Complete(link);
}

TEST_P(D05, ND_109_RejectDataTooLong) {
  const Link link = w.Incoming();
  const std::uint32_t max = P.Info().max_callee_data;
  EXPECT_ND(link.p.Reject(std::string(max + 1, 'x')), INVALID_BUFFER_SIZE);
  EXPECT_PENDING(link.connect);
  EXPECT_ND(link.p.Reject(Data(max, 'h')), SUCCESS);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
  EXPECT_EQ(link.a.PrivateData().value(), Data(max, 'h'));
}

TEST_P(D05, ND_110_DataWithoutBuffer) {
  Link link = w.Incoming();
  EXPECT_ND(link.p.Accept(link.pq, {.missing = 8}), ACCESS_VIOLATION);
  EXPECT_ND(link.p.Reject({}, 8), ACCESS_VIOLATION);
  w.Reply(link);
  w.Complete(link);
}

TEST_P(D05, ND_111_AddressIntoShortBuffer) {
  const Link up = w.Up();
  for (const Connector& c : {up.a, up.p}) {
    for (const bool peer : {false, true}) {
      Object::Raw raw = c.GetAddressRaw(peer, kSockaddrIn - 1);
      EXPECT_ND(raw.status, BUFFER_OVERFLOW);
      EXPECT_EQ(raw.length, kSockaddrIn);
      EXPECT_TRUE(raw.untouched());
      raw = c.GetAddressRaw(peer, 0, true);
      EXPECT_ND(raw.status, BUFFER_OVERFLOW);
      EXPECT_EQ(raw.length, kSockaddrIn);
      raw = c.GetAddressRaw(peer, kSockaddrIn);
      EXPECT_ND(raw.status, SUCCESS);
      EXPECT_TRUE(raw.untouched(kSockaddrIn));
    }
  }
}

TEST_P(D05, ND_112_AddressesMirror) {
  const Link up = w.Up();
  EXPECT_EQ(up.a.GetLocalAddress().value(), up.p.GetPeerAddress().value());
  EXPECT_EQ(up.a.GetPeerAddress().value(), up.p.GetLocalAddress().value());
  EXPECT_EQ(up.p.GetLocalAddress().value(), w.p(7000));
  if (!w.has_ipv6()) return;
  const Listener six = P.CreateListener();
  EXPECT_ND(six.Bind(w.p6(7000)), SUCCESS);
  EXPECT_ND(six.Listen(), SUCCESS);
  const Connector a = w.Bound(A, w.a6()), p = P.CreateConnector();
  const Outcome connect = a.Connect(A.CreateQp(), w.p6(7000));
  ASSERT_ND(six.GetConnectionRequest(p), SUCCESS);
  const Outcome accept = p.Accept(P.CreateQp());
  EXPECT_ND(connect, SUCCESS);
  EXPECT_ND(a.CompleteConnect(), SUCCESS);
  EXPECT_ND(accept, SUCCESS);
  EXPECT_EQ(a.GetLocalAddress().value(), p.GetPeerAddress().value());
  EXPECT_EQ(a.GetPeerAddress().value(), w.p6(7000));
}

TEST_P(D05, ND_113_PeerAddressOfIncoming) {
  const Link link = w.Incoming();
  EXPECT_EQ(link.p.GetPeerAddress().value(), link.a.GetLocalAddress().value());
  EXPECT_ND(w.BoundA().GetPeerAddress(), CONNECTION_INVALID);
}

TEST_P(D05, ND_114_LocalAddressNeedsBind) {
  EXPECT_ND(A.CreateConnector().GetLocalAddress(), CONNECTION_INVALID);
  EXPECT_ND(w.BoundA().GetLocalAddress(), SUCCESS);
}

// Both ways, in pieces as large as the adapter carries, with zeros at both ends.
TEST_P(D05, ND_115_EveryByteValue) {
  const Listener l = w.Listening();
  const int some = static_cast<int>(std::min(A.Info().max_caller_data, P.Info().max_callee_data)) - 4;
  for (int first = 0; first < 256; first += some) {
    std::string data(2, '\0');
    for (int i = first; i < std::min(first + some, 256); ++i) data += static_cast<char>(i);
    data += std::string(2, '\0');
    const Link link = w.Replied({.connect = {.data = data}, .accept = {.data = data}, .l = l});
    EXPECT_EQ(link.p.PrivateData().value(), data);
    EXPECT_EQ(link.a.PrivateData().value(), data);
  }
}

}  // namespace
}  // namespace nd::conformance
