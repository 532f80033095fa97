// SPDX-License-Identifier: Apache-2.0
#include "session/codec.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "session/events.h"
#include "session/limits.h"
#include "session/operations.h"
#include "session/wire.h"

namespace nd::session {
namespace {

const Address kV4 = Address::Parse("192.0.2.7:4420").value();
const Address kV6 = Address::Parse("[2001:db8::7]:65535").value();

template <typename M>
std::vector<std::byte> Encoded(const M& message) {
  std::vector<std::byte> out;
  Append(message, &out);
  return out;
}

Result<ClientMessage> Decoded(std::string_view bytes) {
  return DecodeClientMessage(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

template <typename Op>
Op RoundTrip(Op op) {
  const auto back = DecodeClientMessage(Encoded(ClientMessage{7, Operation(std::move(op))}));
  EXPECT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->op_id, 7u);
  return std::get<Op>(std::get<Operation>(back->content));
}

TEST(SessionCodec, HasTheBytesOfProtobuf) {
  // protoc --encode=ndbroker.v1.ClientMessage: op_id 5, bind of handle 300 to 192.0.2.7:4420.
  const std::string_view bytes(
      "\x08\x05\x62\x10\x08\xac\x02\x12\x0b\x08\x04\x12\x04\xc0\x00\x02\x07\x18\xc4\x22", 20);
  const ClientMessage message{5, Operation(BindOp{{300}, kV4})};
  const std::vector<std::byte> ours = Encoded(message);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(ours.data()), ours.size()), bytes);
}

TEST(SessionCodec, CarriesAnEmptySourceAsOne) {
  EXPECT_FALSE(RoundTrip(ConnectOp{}).source.has_value());
  ConnectOp connect;
  connect.source = Address();
  EXPECT_TRUE(RoundTrip(connect).source.has_value()) << "NDK: refused, and not taken for ND2";
  ListenOp listen;
  listen.local = kV6;
  EXPECT_EQ(RoundTrip(listen).local, kV6);
}

TEST(SessionCodec, KeepsMalformedAddressesMalformed) {
  const auto from = [](std::uint32_t family, const std::string& ip, std::uint32_t port) {
    // A Bind with an address of these parts.
    std::string address = "\x08" + std::string(1, static_cast<char>(family)) + "\x12" +
                          std::string(1, static_cast<char>(ip.size())) + ip + "\x18";
    for (; port > 127; port >>= 7) address += static_cast<char>(port | 0x80);
    address += static_cast<char>(port);
    const std::string bind = "\x12" + std::string(1, static_cast<char>(address.size())) + address;
    const auto message = Decoded("\x62" + std::string(1, static_cast<char>(bind.size())) + bind);
    EXPECT_TRUE(message.ok()) << message.status().ToString();
    return std::get<BindOp>(std::get<Operation>(message->content)).local;
  };
  EXPECT_TRUE(from(4, "abcd", 1).well_formed());
  EXPECT_FALSE(from(4, "abc", 1).well_formed());
  EXPECT_FALSE(from(6, std::string(15, 'a'), 1).well_formed());
  EXPECT_FALSE(from(6, std::string(17, 'a'), 1).well_formed()) << "must not be cut to fit";
  EXPECT_FALSE(from(6, std::string(90, 'a'), 1).well_formed());
  EXPECT_FALSE(from(4, "abcd", 65536).well_formed()) << "must not wrap to port 0";
  EXPECT_FALSE(from(5, "abcd", 1).well_formed());
}

TEST(SessionCodec, NamesTheFieldThatItCannotRead) {
  const auto why = [](std::string_view bytes) { return Decoded(bytes).status().message(); };
  EXPECT_EQ(why("\x08"), "the bytes are no ndbroker.v1.ClientMessage: field op_id: its number is cut off");
  EXPECT_EQ(
      why("\x6a\x05\x1a\x03\x12\x04\x61"),
      "the bytes are no ndbroker.v1.ClientMessage: field connect.remote.ip: its length goes beyond the end");
  EXPECT_EQ(why("\x22\x03\x0a\x01\xff"),
            "the bytes are no ndbroker.v1.ClientMessage: field open_adapter.name: it is not UTF-8");
  EXPECT_EQ(why("\x9a\x06\x05\x61"),
            "the bytes are no ndbroker.v1.ClientMessage: field 99: its length goes beyond the end");
  EXPECT_EQ(why("\x0c"), "the bytes are no ndbroker.v1.ClientMessage: a group ends that has not begun");
}

TEST(SessionCodec, RefusesAMessageThatIsGivenTwice) {
  EXPECT_FALSE(Decoded(std::string_view("\x1a\x00\x1a\x00", 4)).ok()) << "list_adapters twice";
  EXPECT_FALSE(Decoded(std::string_view("\x1a\x00\x62\x00", 4)).ok()) << "two operations";
  EXPECT_FALSE(Decoded(std::string_view("\x62\x04\x12\x00\x12\x00", 6)).ok()) << "bind.local twice";
  const auto numbers = Decoded("\x08\x01\x08\x02\x62\x04\x08\x03\x08\x04");
  ASSERT_TRUE(numbers.ok()) << "of numbers the last counts";
  EXPECT_EQ(numbers->op_id, 2u);
  EXPECT_EQ(std::get<BindOp>(std::get<Operation>(numbers->content)).handle.value, 4u);
}

TEST(SessionCodec, CarriesMessagesOfMoreThanOneHundredAndTwentySevenBytes) {
  for (const std::size_t size : {0u, 1u, 100u, 118u, 119u, 120u, 127u, 128u, 512u, 16379u, 16384u, 70000u}) {
    EXPECT_EQ(RoundTrip(RejectOp{{1}, Bytes(size, 0xAB), 9}).private_data, Bytes(size, 0xAB)) << size;
  }
}

TEST(SessionCodec, GivesNumbersOfANewerBrokerANeutralMeaning) {
  Completion completion;
  completion.status = Status(static_cast<StatusCode>(0x12345678), "new", static_cast<Detail>(200), 3);
  completion.reply.adapters.emplace_back().technology = static_cast<RdmaTechnology>(77);
  const auto back = DecodeServerMessage(Encoded(ServerMessage(completion)));
  ASSERT_TRUE(back.ok() && back->has_value());
  const auto& read = std::get<Completion>(**back);
  EXPECT_EQ(read.status.code(), StatusCode::kInternalError);
  EXPECT_EQ(read.status.detail(), Detail::kNone);
  EXPECT_EQ(read.status.message(), "new");
  EXPECT_EQ(read.status.native(), 3);
  EXPECT_EQ(read.reply.adapters[0].technology, RdmaTechnology::kUndefined);
  const auto gone =
      DecodeServerMessage(Encoded(ServerMessage(DisconnectEvent{{1}, static_cast<DisconnectReason>(99)})));
  EXPECT_EQ(std::get<DisconnectEvent>(**gone).reason, DisconnectReason::kUnknown);
  const std::string_view newer("\x7a\x01\x61", 3);
  const auto unknown = DecodeServerMessage(std::as_bytes(std::span(newer.data(), newer.size())));
  ASSERT_TRUE(unknown.ok());
  EXPECT_FALSE(unknown->has_value());
}

TEST(SessionCodec, ReplacesOnlyTheUnknownPartOfAStatus) {
  const auto back = [](const Status& status) {
    Completion completion;
    completion.status = status;
    const auto message = DecodeServerMessage(Encoded(ServerMessage(completion)));
    return std::get<Completion>(**message).status;
  };
  const Status unknown_detail = back({StatusCode::kIoTimeout, "", static_cast<Detail>(200)});
  EXPECT_EQ(unknown_detail.code(), StatusCode::kIoTimeout);
  EXPECT_EQ(unknown_detail.detail(), Detail::kNone);
  const Status unknown_code = back({static_cast<StatusCode>(0x12345678), "", Detail::kStaleConnection});
  EXPECT_EQ(unknown_code.code(), StatusCode::kInternalError);
  EXPECT_EQ(unknown_code.detail(), Detail::kStaleConnection);
}

TEST(SessionCodec, GivesNumbersOfANewerBrokerANeutralMeaningInCommandsAndAtTheEnd) {
  TransportCommand command;
  command.reason = static_cast<DisconnectReason>(99);
  const auto sent = DecodeServerMessage(Encoded(ServerMessage(command)));
  EXPECT_EQ(std::get<TransportCommand>(**sent).reason, DisconnectReason::kUnknown);
  const Status newer(static_cast<StatusCode>(0x12345678));
  const auto end = DecodeServerMessage(Encoded(ServerMessage(SessionEnd{newer})));
  EXPECT_EQ(std::get<SessionEnd>(**end).status.code(), StatusCode::kInternalError);
}

TEST(SessionCodec, KnowsTheNameOfEachOperation) {
  EXPECT_STREQ(OperationName(Operation(ListAdaptersOp{}).index()), "ListAdapters");
  EXPECT_STREQ(OperationName(Operation(ReattachOp{}).index()), "Reattach");
  EXPECT_STREQ(OperationName(kOperationCount), "?");
}

std::vector<std::byte> FieldBytes(std::uint32_t number, std::vector<std::byte> content) {
  std::vector<std::byte> bytes(WireWriter::kHead + content.size());
  WireWriter out(bytes.data());
  out.Tag(number, WireType::kLengthDelimited);
  out.LengthDelimited(content);
  bytes.resize(static_cast<std::size_t>(out.end() - bytes.data()));
  return bytes;
}

// For each operation and each message of the broker: unreadable content is refused with its name, and so is a
// second content.
TEST(SessionCodec, RefusesBadAndSecondContentOfEachMessage) {
  const std::vector<std::byte> bad = {std::byte{0}};  // A field with the number 0.
  const auto check = [&](const auto& decode, std::uint32_t number, const std::string& field) {
    const auto broken = decode(FieldBytes(number, bad));
    ASSERT_FALSE(broken.ok()) << field;
    EXPECT_NE(broken.status().message().find("field " + field + ": a field has the number 0"),
              std::string::npos)
        << broken.status().message();
    std::vector<std::byte> twice = FieldBytes(number, {});
    EXPECT_TRUE(decode(twice).ok()) << field;
    twice.insert(twice.end(), twice.begin(), twice.end());
    const auto second = decode(twice);
    ASSERT_FALSE(second.ok()) << field;
    EXPECT_NE(second.status().message().find("field " + field + ": it is not the only content"),
              std::string::npos)
        << second.status().message();
    std::vector<std::byte> cut = FieldBytes(number, {});
    cut.back() = std::byte{1};
    EXPECT_FALSE(decode(cut).ok()) << field;
  };
  const auto client = [](std::span<const std::byte> bytes) { return DecodeClientMessage(bytes); };
  const auto server = [](std::span<const std::byte> bytes) { return DecodeServerMessage(bytes); };
  check(client, kHelloCase.number, kHelloCase.field);
  std::apply([&](const auto&... row) { (check(client, row.number, row.field), ...); }, kOperations);
  std::apply([&](const auto&... row) { (check(server, row.number, row.field), ...); }, kServerMessages);
}

// Begins and ends of `count` groups of field 15, each in the one before it.
std::vector<std::byte> Groups(std::size_t count) {
  std::vector<std::byte> bytes(count, std::byte{0x7B});
  bytes.resize(2 * count, std::byte{0x7C});
  return bytes;
}

// Protobuf allows 100 levels; each message around the groups is one.
TEST(SessionCodec, CountsTheMessagesAroundUnknownGroups) {
  const auto client = [](std::vector<std::byte> bytes) { return DecodeClientMessage(bytes).ok(); };
  const auto server = [](std::vector<std::byte> bytes) { return DecodeServerMessage(bytes).ok(); };
  EXPECT_TRUE(client(Groups(100)));
  EXPECT_FALSE(client(Groups(101)));
  EXPECT_TRUE(client(FieldBytes(12, Groups(99)))) << "in bind";
  EXPECT_FALSE(client(FieldBytes(12, Groups(100))));
  EXPECT_TRUE(client(FieldBytes(12, FieldBytes(2, Groups(98))))) << "in bind.local";
  EXPECT_FALSE(client(FieldBytes(12, FieldBytes(2, Groups(99)))));
  EXPECT_TRUE(client(FieldBytes(13, FieldBytes(7, Groups(98))))) << "in connect.source";
  EXPECT_FALSE(client(FieldBytes(13, FieldBytes(7, Groups(99)))));
  EXPECT_TRUE(server(FieldBytes(1, FieldBytes(8, Groups(98))))) << "in completion.adapters";
  EXPECT_FALSE(server(FieldBytes(1, FieldBytes(8, Groups(99)))));
}

// The reader's error for `bytes`, or "".
std::string NumberError(std::vector<std::byte> bytes) {
  std::uint64_t number = 0;
  WireReader in(bytes);
  return in.Varint(&number) ? "" : in.error();
}
std::string LengthError(std::vector<std::byte> bytes) {
  std::span<const std::byte> value;
  WireReader in(bytes);
  return in.LengthDelimited(&value) ? "" : in.error();
}

TEST(SessionWire, NumbersHaveAtMostTenBytes) {
  std::vector<std::byte> number(9, std::byte{0xFF});
  number.push_back(std::byte{1});
  EXPECT_EQ(NumberError(number), "");
  number.back() = std::byte{0x80};
  number.push_back(std::byte{0});
  EXPECT_EQ(NumberError(number), "its number has more than 10 bytes");
}

TEST(SessionWire, TagsAndLengthsHaveAtMostFiveBytes) {
  const auto padded = [](unsigned low, std::size_t size) {
    std::vector<std::byte> bytes(size, std::byte{0x80});
    bytes.front() |= static_cast<std::byte>(low);
    bytes.back() = std::byte{0};
    return bytes;
  };
  WireTag tag;
  EXPECT_TRUE(WireReader(padded(0x0D, 5)).Tag(&tag));
  EXPECT_EQ(tag.number, 1u);
  EXPECT_EQ(tag.type, WireType::kFixed32) << "the last wire type";
  EXPECT_FALSE(WireReader(padded(0x0D, 6)).Tag(&tag));
  EXPECT_EQ(LengthError(padded(0, 5)), "");
  EXPECT_EQ(LengthError(padded(0, 6)), "its length is above 2 GiB");
  const auto length = [](std::uint64_t value) {
    std::vector<std::byte> bytes(WireWriter::kHead);
    WireWriter out(bytes.data());
    out.Varint(value);
    bytes.resize(static_cast<std::size_t>(out.end() - bytes.data()));
    return LengthError(bytes);
  };
  EXPECT_EQ(length(0x7FFFFFFF), "its length goes beyond the end");
  EXPECT_EQ(length(0x80000000), "its length is above 2 GiB");
}

TEST(SessionWire, LengthsOfEachSizeAreInFront) {
  for (const std::size_t size : {0u, 1u, 127u, 128u, 129u, 16383u, 16384u, 70000u}) {
    SCOPED_TRACE(size);
    std::vector<std::byte> bytes(2 * WireWriter::kHead + size);
    WireWriter out(bytes.data());
    std::byte* const first = out.Begin();
    for (std::size_t i = 0; i < size; ++i) out.Varint(i % 100);
    out.End(first);
    out.Varint(101);
    bytes.resize(static_cast<std::size_t>(out.end() - bytes.data()));
    WireReader in(bytes);
    std::span<const std::byte> value;
    std::uint64_t behind = 0;
    ASSERT_TRUE(in.LengthDelimited(&value));
    ASSERT_EQ(value.size(), size);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(std::to_integer<std::size_t>(value[i]), i % 100);
    EXPECT_TRUE(in.Varint(&behind) && in.done());
    EXPECT_EQ(behind, 101u);
  }
}

TEST(SessionWire, SkipsNumbersOfFixedSize) {
  for (const auto& [type, size] : {std::pair(WireType::kFixed32, 4u), std::pair(WireType::kFixed64, 8u)}) {
    const std::vector<std::byte> bytes(size);
    WireReader whole(bytes);
    EXPECT_TRUE(whole.Skip({1, type}, 0));
    EXPECT_TRUE(whole.done());
    WireReader cut{std::span(bytes).first(size - 1)};
    EXPECT_FALSE(cut.Skip({1, type}, 0));
    EXPECT_STREQ(cut.error(), "its value is cut off");
  }
}

TEST(SessionWire, TextEndsWithTheLastCodePoint) {
  EXPECT_TRUE(IsUtf8("\xF4\x8F\xBF\xBF"));
  EXPECT_FALSE(IsUtf8("\xF4\x90\x80\x80"));
  EXPECT_FALSE(IsUtf8("\xF5\x80\x80\x80"));
}

TEST(SessionWire, SkipsNoEndOfAGroupAndNoGroupBeyondTheDepth) {
  const std::vector<std::byte> bytes = {std::byte{0x0C}};  // The end of group 1.
  WireReader in(bytes);
  EXPECT_FALSE(in.Skip({1, WireType::kGroupEnd}, 0));
  EXPECT_STREQ(in.error(), "a group ends that has not begun");
  EXPECT_TRUE(WireReader(bytes).Skip({1, WireType::kGroupStart}, 99));
  WireReader deep(bytes);
  EXPECT_FALSE(deep.Skip({1, WireType::kGroupStart}, 100));
  EXPECT_STREQ(deep.error(), "its groups are more than 100 deep");
}

}  // namespace
}  // namespace nd::session
