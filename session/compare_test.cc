// SPDX-License-Identifier: Apache-2.0
// The tables and the codec against proto/ndbroker/v1/session.proto: every field, random messages in both
// directions, and hostile bytes.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ndbroker/v1/session.pb.h"
#include "session/codec.h"
#include "session/table.h"
#include "session/testing/compare.h"

namespace nd::session {
namespace {

namespace pb = ::ndbroker::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename M>
std::string Encoded(const M& message) {
  std::vector<std::byte> out;
  Append(message, &out);
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

// ---- The tables --------------------------------------------------------------------------------------
template <typename M>
void CompareTable(const Descriptor* theirs);

template <typename T>
struct ElementOf {
  using Type = T;
};
template <typename T>
struct ElementOf<std::optional<T>> {
  using Type = T;
};
template <typename T>
requires Repeated<std::vector<T>>::value struct ElementOf<std::vector<T>> {
  using Type = T;
};

bool SameType(FieldType ours, FieldDescriptor::Type theirs) {
  switch (ours) {
    case FieldType::kBool:
      return theirs == FieldDescriptor::TYPE_BOOL;
    case FieldType::kUint32:
      return theirs == FieldDescriptor::TYPE_UINT32;
    case FieldType::kUint64:
      return theirs == FieldDescriptor::TYPE_UINT64;
    case FieldType::kInt32:
      return theirs == FieldDescriptor::TYPE_INT32;
    case FieldType::kEnum:
      return theirs == FieldDescriptor::TYPE_ENUM;
    case FieldType::kString:
      return theirs == FieldDescriptor::TYPE_STRING;
    case FieldType::kBytes:
      return theirs == FieldDescriptor::TYPE_BYTES;
    case FieldType::kMessage:
      return theirs == FieldDescriptor::TYPE_MESSAGE;
  }
  return false;
}

template <typename T>
void CompareField(std::uint32_t number, const char* name, const Descriptor* message) {
  using Element = typename ElementOf<T>::Type;
  const FieldDescriptor* theirs = message->FindFieldByNumber(static_cast<int>(number));
  ASSERT_NE(theirs, nullptr) << message->full_name() << " has no field " << number << " (" << name << ")";
  EXPECT_EQ(theirs->name(), name) << message->full_name();
  EXPECT_EQ(theirs->is_repeated(), Repeated<T>::value) << theirs->full_name();
  EXPECT_TRUE(SameType(TypeOf<Element>(), theirs->type()))
      << theirs->full_name() << " is a " << theirs->type_name();
  if constexpr (HasParts<Element>) {
    CompareTable<decltype(Split(std::declval<Element>()))>(theirs->message_type());
  } else if constexpr (HasTable<Element>) {
    CompareTable<Element>(theirs->message_type());
  }
}

template <typename M>
void CompareTable(const Descriptor* theirs) {
  ASSERT_NE(theirs, nullptr);
  M message;
  std::set<std::uint32_t> numbers;
  const auto compare = [&](const auto& field) {
    EXPECT_TRUE(numbers.insert(field.number).second) << theirs->full_name() << " field " << field.number;
    CompareField<std::decay_t<decltype(field.In(message))>>(field.number, field.name, theirs);
  };
  std::apply([&](const auto&... field) { (compare(field), ...); }, Table<M>::kFields);
  EXPECT_EQ(theirs->field_count(), static_cast<int>(numbers.size())) << theirs->full_name();
}

template <typename T>
void CompareCase(const Case<T>& row, const Descriptor* message) {
  const FieldDescriptor* theirs = message->FindFieldByNumber(static_cast<int>(row.number));
  ASSERT_NE(theirs, nullptr) << row.name;
  EXPECT_EQ(theirs->name(), row.field);
  EXPECT_NE(theirs->containing_oneof(), nullptr) << row.name;
  ASSERT_NE(theirs->message_type(), nullptr) << row.name;
  EXPECT_EQ(theirs->message_type()->name(), row.name);
  CompareTable<T>(theirs->message_type());
}

TEST(SessionTables, HaveEveryFieldOfTheClientsMessages) {
  const Descriptor* message = pb::ClientMessage::descriptor();
  CompareCase(kHelloCase, message);
  std::apply([&](const auto&... row) { (CompareCase(row, message), ...); }, kOperations);
  CompareField<OpId>(1, "op_id", message);
  EXPECT_EQ(message->field_count(), static_cast<int>(2 + kOperationCount));
}

TEST(SessionTables, HaveEveryFieldOfTheBrokersMessages) {
  const Descriptor* message = pb::ServerMessage::descriptor();
  std::apply([&](const auto&... row) { (CompareCase(row, message), ...); }, kServerMessages);
  EXPECT_EQ(message->field_count(), static_cast<int>(std::variant_size_v<ServerMessage>));
}

TEST(SessionTables, HaveTheEnumeratorsOfTheProtoFile) {
  using Report = TransportReportOp::What;
  using Command = TransportCommand::What;
  using Change = AdapterEvent::What;
  EXPECT_EQ(static_cast<int>(Report::kPeerClosed), pb::TransportReport::PEER_CLOSED);
  EXPECT_EQ(static_cast<int>(Report::kDisconnectDone), pb::TransportReport::DISCONNECT_DONE);
  EXPECT_EQ(static_cast<int>(Report::kPrepared), pb::TransportReport::PREPARED);
  EXPECT_EQ(pb::TransportReport::What_descriptor()->value_count(), 4);
  EXPECT_EQ(static_cast<int>(Command::kDisconnect), pb::TransportCommand::DISCONNECT);
  EXPECT_EQ(static_cast<int>(Command::kDrop), pb::TransportCommand::DROP);
  EXPECT_EQ(static_cast<int>(Command::kPrepare), pb::TransportCommand::PREPARE);
  EXPECT_EQ(pb::TransportCommand::What_descriptor()->value_count(), 4);
  EXPECT_EQ(static_cast<int>(Change::kRemoved), pb::AdapterEvent::REMOVED);
  EXPECT_EQ(static_cast<int>(Change::kDisabled), pb::AdapterEvent::DISABLED);
  EXPECT_EQ(static_cast<int>(Change::kEnabled), pb::AdapterEvent::ENABLED);
  EXPECT_EQ(pb::AdapterEvent::What_descriptor()->value_count(), 4);
}

// ---- Random messages ---------------------------------------------------------------------------------
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  std::uint64_t operator()(std::uint64_t bound) { return random_() % bound; }
  // Mostly small, at times with all its bits.
  std::uint64_t Number() { return random_() >> (*this)(64); }
  std::string Ascii(std::size_t most) {
    std::string text((*this)(most + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + (*this)(26));
    return text;
  }
  std::string Raw(std::size_t most) {
    std::string text((*this)(most + 1), ' ');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }

 private:
  std::mt19937_64 random_;
};

// Fills the message with random values that the C++ types can hold: addresses, details and reasons in range.
void Fill(Dice& dice, Message* message);

void FillField(Dice& dice, const FieldDescriptor* field, Message* message) {
  const auto* access = message->GetReflection();
  const std::string& name = field->name();
  switch (field->type()) {
    case FieldDescriptor::TYPE_BOOL:
      return access->SetBool(message, field, dice(2) != 0);
    case FieldDescriptor::TYPE_UINT32: {
      std::uint64_t value = dice.Number();
      if (name == "family") value = dice(2) * 2 + 4;
      if (name == "port") value = dice(65536);
      if (name == "code") value = static_cast<std::uint32_t>(StatusCode::kIoTimeout);
      if (name == "detail") value = dice(18);
      if (name == "reason") value = dice(8);
      if (name == "technology") value = dice(5);
      return access->SetUInt32(message, field, static_cast<std::uint32_t>(value));
    }
    case FieldDescriptor::TYPE_UINT64:
      return access->SetUInt64(message, field, dice.Number());
    case FieldDescriptor::TYPE_INT32:
      return access->SetInt32(message, field, static_cast<std::int32_t>(dice.Number()));
    case FieldDescriptor::TYPE_ENUM:
      return access->SetEnumValue(message, field, static_cast<int>(1 + dice(3)));
    case FieldDescriptor::TYPE_STRING:
      return access->SetString(message, field, dice(8) == 0 ? "n\u00e4\u20ac\U0001F600" : dice.Ascii(70));
    case FieldDescriptor::TYPE_BYTES:
      return access->SetString(message, field, dice.Raw(name == "ip" ? 16 : 600));
    case FieldDescriptor::TYPE_MESSAGE:
      if (!field->is_repeated()) return Fill(dice, access->MutableMessage(message, field));
      for (std::uint64_t i = dice(4); i != 0; --i) Fill(dice, access->AddMessage(message, field));
      return;
    default:
      FAIL() << field->full_name() << " has a type that the test does not know";
  }
}

void Fill(Dice& dice, Message* message) {
  const Descriptor* type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->containing_oneof() == nullptr && dice(4) != 0) FillField(dice, field, message);
  }
  if (type->oneof_decl_count() == 0) return;
  const auto* oneof = type->oneof_decl(0);
  const auto index = static_cast<int>(dice(static_cast<std::uint64_t>(oneof->field_count())));
  FillField(dice, oneof->field(index), message);
}

TEST(SessionCodec, ReadsEveryClientMessageThatProtobufWritesAndTheOtherWayRound) {
  Dice dice(1);
  for (int i = 0; i < 20'000; ++i) {
    pb::ClientMessage theirs, back;
    Fill(dice, &theirs);
    const Result<ClientMessage> ours = DecodeClientMessage(BytesOf(theirs.SerializeAsString()));
    ASSERT_TRUE(ours.ok()) << ours.status().ToString() << "\n" << theirs.DebugString();
    ASSERT_TRUE(back.ParseFromString(Encoded(*ours)));
    ASSERT_TRUE(MessageDifferencer::Equivalent(theirs, back)) << theirs.DebugString() << back.DebugString();
    ASSERT_EQ(theirs.connect().has_source(), back.connect().has_source());
    ASSERT_EQ(theirs.listen().has_local(), back.listen().has_local());
  }
}

TEST(SessionCodec, ReadsEveryServerMessageThatProtobufWritesAndTheOtherWayRound) {
  Dice dice(2);
  for (int i = 0; i < 20'000; ++i) {
    pb::ServerMessage theirs, back;
    Fill(dice, &theirs);
    const auto ours = DecodeServerMessage(BytesOf(theirs.SerializeAsString()));
    ASSERT_TRUE(ours.ok()) << ours.status().ToString() << "\n" << theirs.DebugString();
    ASSERT_TRUE(ours->has_value()) << theirs.DebugString();
    ASSERT_TRUE(back.ParseFromString(Encoded(**ours)));
    ASSERT_TRUE(MessageDifferencer::Equivalent(theirs, back)) << theirs.DebugString() << back.DebugString();
  }
}

// ---- Hostile bytes -----------------------------------------------------------------------------------
std::string Mutated(Dice& dice, std::string bytes) {
  for (std::uint64_t times = 1 + dice(3); times != 0; --times) {
    const std::size_t at = dice(bytes.size() + 1);
    switch (dice(6)) {
      case 0:  // Another byte.
        if (at < bytes.size()) bytes[at] = static_cast<char>(dice(256));
        break;
      case 1:  // Another bit.
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << dice(8)));
        break;
      case 2:  // Cut off.
        bytes.resize(at);
        break;
      case 3:  // More bytes.
        bytes.insert(at, dice.Raw(6));
        break;
      case 4:  // Fewer bytes.
        bytes.erase(at, dice(4));
        break;
      case 5:  // A number that does not end.
        bytes.insert(at, std::string(1 + dice(11), static_cast<char>(0x80 + dice(128))));
        break;
    }
  }
  return bytes;
}

class HostileBytes : public ::testing::Test {
 protected:
  HostileBytes() { google::protobuf::SetLogHandler(nullptr); }  // It reports each string that is not UTF-8.
};

TEST_F(HostileBytes, GetTheVerdictOfProtobuf) {
  Dice dice(3);
  for (int i = 0; i < 150'000; ++i) {
    pb::ClientMessage client;
    pb::ServerMessage server;
    Fill(dice, &client);
    Fill(dice, &server);
    const std::string up = Mutated(dice, client.SerializeAsString());
    const std::string down = Mutated(dice, server.SerializeAsString());
    ASSERT_EQ(DifferenceAsClientMessage(BytesOf(up)), "") << ::testing::PrintToString(up);
    ASSERT_EQ(DifferenceAsServerMessage(BytesOf(down)), "") << ::testing::PrintToString(down);
  }
}

TEST_F(HostileBytes, InGroupsAreSkippedAsDeepAsProtobufDoes) {
  for (const std::size_t depth : {1u, 2u, 98u, 99u, 100u, 101u, 5000u}) {
    const std::string open(depth, '\x7b'), close(depth, '\x7c');  // Field 15, which no message has.
    pb::ClientMessage inner;
    EXPECT_EQ(DifferenceAsServerMessage(BytesOf(open + close)), "") << depth;
    EXPECT_EQ(DifferenceAsServerMessage(BytesOf(open)), "") << depth;
    EXPECT_EQ(DifferenceAsServerMessage(BytesOf(open + close + close)), "") << depth;
    std::string nested = "\x0a";  // A completion with the groups.
    for (std::size_t length = 2 * depth; length != 0; length >>= 7) {
      nested += static_cast<char>((length & 0x7F) | (length > 0x7F ? 0x80 : 0));
    }
    EXPECT_EQ(DifferenceAsServerMessage(BytesOf(nested + open + close)), "") << depth;
  }
}

TEST_F(HostileBytes, WithEveryTwoBytesGetTheVerdictOfProtobuf) {
  std::string bytes(2, '\0');
  for (int i = 0; i < 65536; ++i) {
    bytes[0] = static_cast<char>(i >> 8);
    bytes[1] = static_cast<char>(i);
    ASSERT_EQ(DifferenceAsClientMessage(BytesOf(bytes)), "") << i;
    ASSERT_EQ(DifferenceAsServerMessage(BytesOf(bytes)), "") << i;
    // As a string: broker_version of a completion, and with a third byte.
    const std::string text = std::string("\x0a\x05\x62\x03", 4) + bytes + (i % 2 != 0 ? "\xbf" : "a");
    ASSERT_EQ(DifferenceAsServerMessage(BytesOf(text)), "") << i;
  }
}

}  // namespace
}  // namespace nd::session
