// SPDX-License-Identifier: Apache-2.0
#include "session/weight.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace nd::session {
namespace {

// A text that needs heap memory, and that memory with its terminating NUL.
const std::string kLong(100, 'x');
std::size_t BytesOf(const std::string& text) {
  return text.capacity() + 1;
}

TEST(Weight, ShortTextsAreInsideTheirObjects) {
  Completion completion;
  completion.status = Status(StatusCode::kCanceled, "short");
  completion.reply.broker_version = "1.0";
  EXPECT_EQ(HeapBytes(completion), 0u);
  EXPECT_EQ(HeapBytes(ServerMessage(completion)), 0u);
  EXPECT_EQ(HeapBytes(ServerMessage(SessionEnd{Status(StatusCode::kCanceled, "short")})), 0u);
}

TEST(Weight, LongTextsCountWithTheirEnd) {
  Completion completion;
  completion.status = Status(StatusCode::kCanceled, kLong);
  completion.reply.broker_version = kLong + kLong;
  EXPECT_EQ(HeapBytes(completion),
            BytesOf(completion.status.message()) + BytesOf(completion.reply.broker_version));
  SessionEnd end;
  end.status = completion.status;
  EXPECT_EQ(HeapBytes(ServerMessage(end)), BytesOf(end.status.message()));
}

TEST(Weight, EachPartOfAReplyCounts) {
  Completion completion;
  completion.reply.private_data.reserve(300);
  completion.reply.proof.reserve(40);
  EXPECT_EQ(HeapBytes(completion), 340u);
  AdapterInfo& adapter = completion.reply.adapters.emplace_back();
  const std::size_t empty = 340 + completion.reply.adapters.capacity() * sizeof(AdapterInfo);
  EXPECT_EQ(HeapBytes(completion), empty);
  adapter.name = kLong;
  adapter.provider = kLong + "yy";
  adapter.addresses.reserve(3);
  EXPECT_EQ(HeapBytes(completion),
            empty + BytesOf(adapter.name) + BytesOf(adapter.provider) + 3 * sizeof(Address));
}

TEST(Weight, OfTheOtherMessagesOnlyCommandsHaveHeapMemory) {
  TransportCommand command;
  command.attributes.reserve(70);
  const ServerMessage message(std::move(command));
  EXPECT_EQ(HeapBytes(message), 70u);
  EXPECT_EQ(HeapBytes(ServerMessage(ConnectEvent{})), 0u);
  EXPECT_EQ(HeapBytes(ServerMessage(DisconnectEvent{})), 0u);
}

}  // namespace
}  // namespace nd::session
