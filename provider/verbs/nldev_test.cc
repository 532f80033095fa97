// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/nldev.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <optional>

namespace nd::provider::verbs {
namespace {

class ReplyBuilder {
 public:
  explicit ReplyBuilder(std::uint32_t sequence, std::uint16_t type = 0x1409) {
    header_.nlmsg_type = type;
    header_.nlmsg_seq = sequence;
    bytes_.resize(sizeof header_);
  }
  ReplyBuilder& U32(std::uint16_t type, std::uint32_t value) { return Raw(type, &value, sizeof value); }
  ReplyBuilder& Text(std::uint16_t type, const char* text) { return Raw(type, text, std::strlen(text) + 1); }
  ReplyBuilder& Raw(std::uint16_t type, const void* data, std::size_t size) {
    const nlattr attribute{static_cast<std::uint16_t>(NLA_HDRLEN + size), type};
    const std::size_t at = bytes_.size();
    bytes_.resize(at + NLA_HDRLEN + NLA_ALIGN(size));
    std::memcpy(bytes_.data() + at, &attribute, sizeof attribute);
    std::memcpy(bytes_.data() + at + NLA_HDRLEN, data, size);
    return *this;
  }
  ReplyBuilder& Error(std::int32_t error) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(nlmsgerr));
    std::memcpy(bytes_.data() + at, &error, sizeof error);
    return *this;
  }
  Message Done() {
    header_.nlmsg_len = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return bytes_;
  }

 private:
  nlmsghdr header_{};
  Message bytes_;
};

// As the kernel answers RES_QP_GET: device, port, number, type, state, then the owner.
Message QpReply(std::uint32_t sequence, std::uint32_t number, std::uint32_t pid) {
  return ReplyBuilder(sequence)
      .U32(RDMA_NLDEV_ATTR_DEV_INDEX, 0)
      .Text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe0")
      .U32(RDMA_NLDEV_ATTR_RES_LQPN, number)
      .U32(RDMA_NLDEV_ATTR_RES_PID, pid)
      .Done();
}

TEST(Nldev, RequestHasTheLayoutThatTheKernelExpects) {
  const Message request = QpOwnerRequest(7, 3, 1, 0x11);
  nlmsghdr header{};
  ASSERT_EQ(request.size(), sizeof header + 24);
  std::memcpy(&header, request.data(), sizeof header);
  EXPECT_EQ(header.nlmsg_len, request.size());
  EXPECT_EQ(header.nlmsg_type, (RDMA_NL_NLDEV << 10) + RDMA_NLDEV_CMD_RES_QP_GET);
  EXPECT_EQ(header.nlmsg_flags, NLM_F_REQUEST);
  EXPECT_EQ(header.nlmsg_seq, 7u);
  const std::uint8_t body[24] = {8, 0, RDMA_NLDEV_ATTR_DEV_INDEX,  0, 3,    0, 0, 0,
                                 8, 0, RDMA_NLDEV_ATTR_PORT_INDEX, 0, 1,    0, 0, 0,
                                 8, 0, RDMA_NLDEV_ATTR_RES_LQPN,   0, 0x11, 0, 0, 0};
  EXPECT_EQ(0, std::memcmp(request.data() + sizeof header, body, sizeof body));
}

TEST(Nldev, OwnerIsFound) {
  const auto owner = ParseQpOwner(QpReply(5, 17, 4242), 5, 17);
  ASSERT_TRUE(owner.ok()) << owner.status().ToString();
  EXPECT_EQ(*owner, 4242u);
}

TEST(Nldev, QueuePairOfTheKernelHasNoOwner) {
  const Message reply =
      ReplyBuilder(5).U32(RDMA_NLDEV_ATTR_RES_LQPN, 1).Text(RDMA_NLDEV_ATTR_RES_KERN_NAME, "ib_core").Done();
  const auto owner = ParseQpOwner(reply, 5, 1);
  ASSERT_TRUE(owner.ok());
  EXPECT_FALSE(owner->has_value());
}

TEST(Nldev, AnswerToAnotherRequestIsRefused) {
  EXPECT_FALSE(ParseQpOwner(QpReply(5, 17, 4242), 5, 18).ok());
  EXPECT_FALSE(ParseQpOwner(QpReply(5, 17, 4242), 6, 17).ok());
}

TEST(Nldev, ErrorsKeepTheirErrno) {
  const auto owner = ParseQpOwner(ReplyBuilder(5, NLMSG_ERROR).Error(-ENOENT).Done(), 5, 17);
  ASSERT_FALSE(owner.ok());
  EXPECT_EQ(owner.status().native(), ENOENT);
}

TEST(Nldev, TruncatedReplyIsRefusedOrNamesNoOwner) {
  const Message whole = QpReply(5, 17, 4242);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    Message cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_FALSE(ParseQpOwner(cut, 5, 17).ok()) << n;
    if (n < sizeof(nlmsghdr)) continue;
    // The same with a header whose length matches the cut: the parser must not name another owner.
    const auto length = static_cast<std::uint32_t>(n);
    std::memcpy(cut.data(), &length, sizeof length);
    const auto owner = ParseQpOwner(cut, 5, 17);
    EXPECT_TRUE(!owner.ok() || !owner->has_value()) << n;
  }
}

TEST(Nldev, AttributesWithImpossibleLengthsAreRefused) {
  for (const std::uint16_t length : std::initializer_list<std::uint16_t>{0, 3, 200}) {
    Message reply = QpReply(5, 17, 4242);
    std::memcpy(reply.data() + sizeof(nlmsghdr), &length, sizeof length);
    EXPECT_FALSE(ParseQpOwner(reply, 5, 17).ok()) << length;
  }
  const std::uint64_t wide = 17;
  EXPECT_FALSE(
      ParseQpOwner(ReplyBuilder(5).Raw(RDMA_NLDEV_ATTR_RES_LQPN, &wide, sizeof wide).Done(), 5, 17).ok());
}

Message Entry(std::uint32_t number, std::optional<std::uint32_t> pid) {
  ReplyBuilder entry(0);
  entry.U32(RDMA_NLDEV_ATTR_RES_LQPN, number);
  if (pid) entry.U32(RDMA_NLDEV_ATTR_RES_PID, *pid);
  Message bytes = entry.Done();
  return Message(bytes.begin() + sizeof(nlmsghdr), bytes.end());
}

// Two messages in one datagram, as the kernel sends a dump.
Message Dump(std::uint32_t sequence, bool done) {
  Message all;
  for (const std::uint32_t first : {10u, 20u}) {
    ReplyBuilder table(0);
    for (std::uint32_t n = first; n < first + 3; ++n) {
      const Message entry = Entry(n, n == 21 ? std::nullopt : std::optional(n + 1000));
      table.Raw(RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED, entry.data(), entry.size());
    }
    const Message rows = table.Done();
    const Message message = ReplyBuilder(sequence)
                                .U32(RDMA_NLDEV_ATTR_DEV_INDEX, 0)
                                .Raw(RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED, rows.data() + sizeof(nlmsghdr),
                                     rows.size() - sizeof(nlmsghdr))
                                .Done();
    all.insert(all.end(), message.begin(), message.end());
  }
  if (done) {
    const Message end = ReplyBuilder(sequence, NLMSG_DONE).Error(0).Done();
    all.insert(all.end(), end.begin(), end.end());
  }
  return all;
}

TEST(Nldev, OwnerIsFoundInADump) {
  auto part = ParseQpDump(Dump(4, false), 4, 22);
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  EXPECT_TRUE(part->found);
  EXPECT_EQ(part->owner, 1022u);
  EXPECT_FALSE(part->done);
  part = ParseQpDump(Dump(4, true), 4, 21);
  ASSERT_TRUE(part.ok());
  EXPECT_TRUE(part->found);
  EXPECT_FALSE(part->owner.has_value());
  EXPECT_TRUE(part->done);
  part = ParseQpDump(Dump(4, true), 4, 99);
  ASSERT_TRUE(part.ok());
  EXPECT_FALSE(part->found);
  EXPECT_FALSE(ParseQpDump(Dump(4, true), 5, 22).ok());
}

TEST(Nldev, TruncatedDumpNeverNamesAnotherOwner) {
  const Message whole = Dump(4, true);
  for (std::size_t n = 1; n < whole.size(); ++n) {
    const auto part = ParseQpDump(std::span(whole.data(), n), 4, 22);
    if (part.ok() && part->owner) {
      EXPECT_EQ(part->owner, 1022u) << n;
    }
  }
}

TEST(Nldev, ProcessOfAThread) {
  EXPECT_EQ(ParseProcessOf("Name:\tx\nState:\tS\nTgid:\t4711\nNgid:\t0\nPid:\t4712\n"), 4711u);
  EXPECT_FALSE(ParseProcessOf("").has_value());
  EXPECT_FALSE(ParseProcessOf("Name:\tTgid:\t1\n").has_value()) << "a name that looks like it";
  EXPECT_FALSE(ParseProcessOf("Name:\tx\nTgid:\t\n").has_value());
}

TEST(Nldev, PortNetdev) {
  const auto index = ParsePortNetdev(
      ReplyBuilder(9).U32(RDMA_NLDEV_ATTR_PORT_INDEX, 1).U32(RDMA_NLDEV_ATTR_NDEV_INDEX, 12).Done(), 9);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(*index, 12u);
  const auto none = ParsePortNetdev(ReplyBuilder(9).U32(RDMA_NLDEV_ATTR_PORT_INDEX, 1).Done(), 9);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

}  // namespace
}  // namespace nd::provider::verbs
