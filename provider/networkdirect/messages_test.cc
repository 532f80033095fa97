// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/messages.h"

#include <gtest/gtest.h>

namespace nd::provider::networkdirect {
namespace {

Message Whole() {
  Message m;
  m.kind = Kind::kConnect;
  m.listens = true;
  m.number = 0x8000000000000007;
  m.endpoint = 11;
  m.queue_pair = 13;
  m.limits = {3, 5};
  m.local = Address::Parse("10.1.2.3:77").value();
  m.remote = Address::Parse("[fe80::7]:88").value();
  m.status = Status(StatusCode::kConnectionRefused, "because", Detail::kPeerRejected);
  m.class_id[3] = 9;
  m.data = {1, 2, 3};
  m.text = "C:\\x.dll";
  return m;
}

TEST(NetworkDirectMessages, EveryFieldArrives) {
  const Message m = Whole();
  const std::optional<Message> got = Decode(Encode(m));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, m.kind);
  EXPECT_EQ(got->listens, m.listens);
  EXPECT_EQ(got->number, m.number);
  EXPECT_EQ(got->endpoint, m.endpoint);
  EXPECT_EQ(got->queue_pair, m.queue_pair);
  EXPECT_EQ(got->limits, m.limits);
  EXPECT_EQ(got->local, m.local);
  EXPECT_EQ(got->remote, m.remote);
  EXPECT_EQ(got->status.ToString(), m.status.ToString());
  EXPECT_EQ(got->class_id, m.class_id);
  EXPECT_EQ(got->data, m.data);
  EXPECT_EQ(got->text, m.text);
}

TEST(NetworkDirectMessages, OtherBytesAreNoMessage) {
  const std::vector<std::byte> whole = Encode(Whole());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Decode(std::span(whole).first(size))) << size;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back({});
  EXPECT_FALSE(Decode(longer));
  // Each byte of the head in turn: never a fault, and never a kind, code or length that does not exist.
  for (std::size_t at = 0; at < 104; ++at) {
    for (const int value : {0, 1, 0x7f, 0xff}) {
      std::vector<std::byte> wrong = whole;
      wrong[at] = std::byte(value);
      if (const auto got = Decode(wrong)) {
        EXPECT_TRUE(IsKnown(got->status.code()));
        EXPECT_EQ(got->data.size(), 3u);
      }
    }
  }
  Message unknown = Whole();
  unknown.kind = Kind{50};
  EXPECT_FALSE(Decode(Encode(unknown)));
}

TEST(NetworkDirectMessages, TheHandOverNamesTheConnection) {
  HandOffRecord record;
  SetPayload(PayloadFor(0x8000000000000123), &record);
  EXPECT_EQ(NumberIn(PayloadOf<Payload>(record)), 0x8000000000000123u);
}

}  // namespace
}  // namespace nd::provider::networkdirect
