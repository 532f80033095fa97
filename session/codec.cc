// SPDX-License-Identifier: Apache-2.0
#include "session/codec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "session/table.h"
#include "session/wire.h"

namespace nd::session {
namespace {

std::span<const std::byte> BytesOf(const auto& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// ---- Writing -----------------------------------------------------------------------------------------
template <typename M>
void Write(WireWriter& out, const M& message);

// The message with the fields that it has on the wire.
template <typename M>
decltype(auto) FieldsOf(const M& message) {
  if constexpr (HasParts<M>) {
    return Split(message);
  } else {
    return (message);
  }
}

// A number as it stands in a varint: negative ones take the full 64 bits.
template <typename T>
std::uint64_t NumberOf(T value) {
  if constexpr (std::is_same_v<T, Handle>) {
    return value.value;
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

// A message that takes no bytes. A Status always takes some.
bool IsDefault(const Status&) {
  return false;
}
bool IsDefault(const Address& address) {
  return address.family() == Address::Family::kUnspecified && address.ip().empty() && address.port() == 0;
}
bool IsDefault(const ReadLimits& limits) {
  return limits.inbound == 0 && limits.outbound == 0;
}

// Calls `nested` for each message in the field, `bytes` for a string or bytes, `number` for a number; nothing
// for a default value.
template <typename T, typename Nested, typename BytesCall, typename Number>
void VisitField(const T& value, const Nested& nested, const BytesCall& bytes, const Number& number) {
  if constexpr (Repeated<T>::value) {
    for (const auto& element : value) nested(element);
  } else if constexpr (requires { value.has_value(); }) {
    if (value.has_value()) nested(*value);
  } else if constexpr (TypeOf<T>() == FieldType::kMessage) {
    if (!IsDefault(value)) nested(value);
  } else if constexpr (TypeOf<T>() == FieldType::kString || TypeOf<T>() == FieldType::kBytes) {
    if (!value.empty()) bytes(BytesOf(value));
  } else {
    if (NumberOf(value) != 0) number(NumberOf(value));
  }
}

// Room for the message, mostly more than it takes.
template <typename M>
std::size_t RoomFor(const M& message);

template <typename T>
std::size_t RoomForField(const T& value) {
  if constexpr (Repeated<T>::value) {
    std::size_t room = 0;
    for (const auto& element : value) room += WireWriter::kHead + RoomFor(FieldsOf(element));
    return room;
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? WireWriter::kHead + RoomFor(FieldsOf(*value)) : 0;
  } else if constexpr (TypeOf<T>() == FieldType::kMessage) {
    return WireWriter::kHead + RoomFor(FieldsOf(value));
  } else if constexpr (TypeOf<T>() == FieldType::kString || TypeOf<T>() == FieldType::kBytes) {
    return WireWriter::kHead + value.size();
  } else {
    return WireWriter::kHead;
  }
}

template <typename M>
std::size_t RoomFor(const M& message) {
  return std::apply(
      [&](const auto&... field) { return (std::size_t{0} + ... + RoomForField(field.In(message))); },
      Table<M>::kFields);
}

template <typename M>
void WriteNested(WireWriter& out, std::uint32_t number, const M& message) {
  out.Tag(number, WireType::kLengthDelimited);
  std::byte* const first = out.Begin();
  Write(out, FieldsOf(message));
  out.End(first);
}

template <typename T>
void WriteField(WireWriter& out, std::uint32_t number, const T& value) {
  VisitField(
      value, [&](const auto& message) { WriteNested(out, number, message); },
      [&](std::span<const std::byte> bytes) {
        out.Tag(number, WireType::kLengthDelimited);
        out.LengthDelimited(bytes);
      },
      [&](std::uint64_t n) {
        out.Tag(number, WireType::kVarint);
        out.Varint(n);
      });
}

template <typename M>
void Write(WireWriter& out, const M& message) {
  std::apply([&](const auto&... field) { (WriteField(out, field.number, field.In(message)), ...); },
             Table<M>::kFields);
}

// The number in the oneof of each alternative of a variant, in their order.
template <typename... T>
constexpr auto NumbersOf(const std::tuple<Case<T>...>& rows) {
  return std::apply([](const auto&... row) { return std::array{row.number...}; }, rows);
}

// Appends field 1 if `first` is not 0, and `content` as the field `number`.
template <typename M>
void AppendContent(std::uint64_t first, std::uint32_t number, const M& content, std::vector<std::byte>* out) {
  const std::size_t before = out->size();
  out->resize(before + 2 * WireWriter::kHead + RoomFor(content));
  WireWriter writer(out->data() + before);
  WriteField(writer, 1, first);
  WriteNested(writer, number, content);
  out->resize(static_cast<std::size_t>(writer.end() - out->data()));
}

// ---- Reading -----------------------------------------------------------------------------------------
// Where reading stopped and why: "connect.remote.ip: its length goes beyond the end".
struct Trouble {
  std::string where, why;
  bool At(const char* name, const char* error) {
    where = name;
    why = error;
    return false;
  }
  bool In(const char* name) {
    where = where.empty() ? name : name + ("." + where);
    return false;
  }
  Status ToStatus(const char* message) const {
    return {StatusCode::kInvalidParameter, std::string("the bytes are no ndbroker.v1.") + message + ": " +
                                               (where.empty() ? why : "field " + where + ": " + why)};
  }
};

constexpr char kGivenTwice[] = "it is given twice";

template <typename M>
bool ReadMessage(std::span<const std::byte> bytes, int depth, M& message, Trouble& trouble);

template <typename M>
bool ReadNested(std::span<const std::byte> bytes, int depth, M& message, Trouble& trouble) {
  if constexpr (HasParts<M>) {
    decltype(Split(message)) parts;
    if (!ReadMessage(bytes, depth, parts, trouble)) return false;
    message = Join(parts);
    return true;
  } else {
    return ReadMessage(bytes, depth, message, trouble);
  }
}

template <typename T>
void SetNumber(std::uint64_t number, T& value) {
  if constexpr (std::is_same_v<T, Handle>) {
    value.value = number;
  } else if constexpr (std::is_same_v<T, bool>) {
    value = number != 0;
  } else if constexpr (std::is_enum_v<T>) {
    // Takes the low 32 bits, as protobuf does. A number that does not fit becomes the largest of the
    // underlying type, which no enumeration defines.
    using Number = std::underlying_type_t<T>;
    const auto low = static_cast<std::uint32_t>(number);
    value =
        static_cast<T>(static_cast<Number>(std::min(low, std::uint32_t{std::numeric_limits<Number>::max()})));
  } else {
    value = static_cast<T>(number);
  }
}

template <typename T>
constexpr WireType WireTypeOf() {
  if constexpr (Repeated<T>::value || requires(T value) { value.has_value(); }) {
    return WireType::kLengthDelimited;
  } else {
    return TypeOf<T>() < FieldType::kString ? WireType::kVarint : WireType::kLengthDelimited;
  }
}

// `given`: the field occurred before, which is an error for messages only.
template <typename T>
bool ReadField(WireReader& in, const char* name, int depth, T& value, Trouble& trouble, bool given = {}) {
  if constexpr (WireTypeOf<T>() == WireType::kVarint) {
    std::uint64_t number = 0;
    if (!in.Varint(&number)) return trouble.At(name, in.error());
    SetNumber(number, value);
  } else {
    std::span<const std::byte> bytes;
    if (!in.LengthDelimited(&bytes)) return trouble.At(name, in.error());
    if constexpr (Repeated<T>::value) {
      if (!ReadNested(bytes, depth + 1, value.emplace_back(), trouble)) return trouble.In(name);
    } else if constexpr (requires { value.has_value(); }) {
      if (given) return trouble.At(name, kGivenTwice);
      if (!ReadNested(bytes, depth + 1, value.emplace(), trouble)) return trouble.In(name);
    } else if constexpr (TypeOf<T>() == FieldType::kString) {
      value = std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!IsUtf8(value)) return trouble.At(name, "it is not UTF-8");
    } else if constexpr (TypeOf<T>() == FieldType::kBytes) {
      const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
      value = T(first, first + bytes.size());
    } else {
      if (given) return trouble.At(name, kGivenTwice);
      if (!ReadNested(bytes, depth + 1, value, trouble)) return trouble.In(name);
    }
  }
  return true;
}

// Reads one field of a message that has a table. Sets `known` unless the field is unknown.
template <typename M>
bool ReadKnown(WireReader& in, WireTag tag, int depth, M& message, std::uint32_t& given, bool& known,
               Trouble& trouble) {
  static_assert(std::tuple_size_v<std::decay_t<decltype(Table<M>::kFields)>> < 32);
  bool good = true;
  std::uint32_t bit = 1;
  const auto read = [&](const auto& field) {
    using T = std::decay_t<decltype(field.In(message))>;
    const std::uint32_t mine = std::exchange(bit, bit << 1);
    if (field.number != tag.number || tag.type != WireTypeOf<T>()) return false;
    known = true;
    good = ReadField(in, field.name, depth, field.In(message), trouble, (given & mine) != 0);
    given |= mine;
    return true;
  };
  std::apply([&](const auto&... field) { static_cast<void>((read(field) || ...)); }, Table<M>::kFields);
  return good;
}

template <typename M>
bool ReadMessage(std::span<const std::byte> bytes, int depth, M& message, Trouble& trouble) {
  WireReader in(bytes);
  std::uint32_t given = 0;
  while (!in.done()) {
    WireTag tag;
    bool known = false;
    if (!in.Tag(&tag)) return trouble.At("", in.error());
    if (!ReadKnown(in, tag, depth, message, given, known, trouble)) return false;
    if (!known && !in.Skip(tag, depth)) return trouble.At(std::to_string(tag.number).c_str(), in.error());
  }
  return true;
}

// Reads the field if its number is one of `rows`; `emplace` makes the message that it is read into.
template <typename Emplace>
bool ReadCase(WireReader& in, WireTag tag, const auto& rows, bool given, const Emplace& emplace, bool& known,
              Trouble& trouble) {
  bool good = true;
  const auto read = [&](const auto& row) {
    if (row.number != tag.number || tag.type != WireType::kLengthDelimited) return false;
    known = true;
    std::span<const std::byte> bytes;
    if (!in.LengthDelimited(&bytes)) {
      good = trouble.At(row.field, in.error());
    } else if (given) {
      good = trouble.At(row.field, "it is not the only content of the message");
    } else {
      good = ReadMessage(bytes, 1, emplace(row), trouble);
      if (!good) trouble.In(row.field);
    }
    return true;
  };
  std::apply([&](const auto&... row) { static_cast<void>((read(row) || ...)); }, rows);
  return good;
}

// ---- Numbers of a newer broker -----------------------------------------------------------------------
void Settle(Status& status) {
  const bool known_detail = status.detail() <= Detail::kStaleConnection;
  if (IsKnown(status.code()) && known_detail) return;
  status = Status(IsKnown(status.code()) ? status.code() : StatusCode::kInternalError, status.message(),
                  known_detail ? status.detail() : Detail::kNone, status.native());
}
void Settle(DisconnectReason& reason) {
  if (reason > DisconnectReason::kEstablishmentFailed) reason = DisconnectReason::kUnknown;
}
void Settle(Completion& completion) {
  Settle(completion.status);
  for (AdapterInfo& info : completion.reply.adapters) {
    if (info.technology > RdmaTechnology::kRoceV2) info.technology = RdmaTechnology::kUndefined;
  }
}
void Settle(ConnectEvent&) {}
void Settle(DisconnectEvent& event) {
  Settle(event.reason);
}
void Settle(TransportCommand& command) {
  Settle(command.reason);
}
void Settle(AdapterEvent&) {}
void Settle(SessionEnd& end) {
  Settle(end.status);
}

}  // namespace

AddressParts Split(const Address& address) {
  const std::string_view ip = address.ip();
  return {static_cast<std::uint32_t>(address.family()),
          {reinterpret_cast<const std::uint8_t*>(ip.data()), ip.size()},
          address.port()};
}

Address Join(const AddressParts& parts) {
  using Family = Address::Family;
  Family family = parts.family == 4   ? Family::kIpv4
                  : parts.family == 6 ? Family::kIpv6
                  : parts.family == 0 ? Family::kUnspecified
                                      : Family::kOther;
  // FromParts would cut these parts to a well-formed address.
  if (parts.ip.size() > 16 || parts.port > 65535) family = Family::kOther;
  const std::string_view ip(reinterpret_cast<const char*>(parts.ip.data()), parts.ip.size());
  return Address::FromParts(family, ip.substr(0, 16), static_cast<std::uint16_t>(parts.port & 0xFFFF));
}

StatusParts Split(const Status& status) {
  return {static_cast<std::uint32_t>(status.code()), static_cast<std::uint32_t>(status.detail()),
          status.native(), status.message()};
}

Status Join(const StatusParts& parts) {
  Detail detail{};
  SetNumber(parts.detail, detail);
  return {static_cast<StatusCode>(parts.code), std::string(parts.message), detail, parts.native};
}

const char* OperationName(std::size_t index) {
  static constexpr auto kNames =
      std::apply([](const auto&... row) { return std::array{row.name...}; }, kOperations);
  return index < kNames.size() ? kNames[index] : "?";
}

void Append(const ClientMessage& message, std::vector<std::byte>* out) {
  if (const Hello* hello = std::get_if<Hello>(&message.content)) {
    AppendContent(message.op_id, kHelloCase.number, *hello, out);
  } else if (const Operation* op = std::get_if<Operation>(&message.content)) {
    static constexpr auto kNumbers = NumbersOf(kOperations);
    std::visit([&](const auto& one) { AppendContent(message.op_id, kNumbers[op->index()], one, out); }, *op);
  } else {
    const std::size_t before = out->size();
    out->resize(before + WireWriter::kHead);
    WireWriter writer(out->data() + before);
    WriteField(writer, 1, message.op_id);
    out->resize(static_cast<std::size_t>(writer.end() - out->data()));
  }
}

void Append(const ServerMessage& message, std::vector<std::byte>* out) {
  static constexpr auto kNumbers = NumbersOf(kServerMessages);
  std::visit([&](const auto& one) { AppendContent(0, kNumbers[message.index()], one, out); }, message);
}

void Append(const Completion& completion, std::vector<std::byte>* out) {
  AppendContent(0, std::get<Case<Completion>>(kServerMessages).number, completion, out);
}

Result<ClientMessage> DecodeClientMessage(std::span<const std::byte> bytes) {
  constexpr char kName[] = "ClientMessage";
  WireReader in(bytes);
  Result<ClientMessage> result{ClientMessage{}};
  ClientMessage& message = *result;
  Trouble trouble;
  const auto emplace_hello = [&](const auto&) -> Hello& { return message.content.emplace<Hello>(); };
  const auto emplace_operation = [&](const auto& row) -> auto& {
    using T = typename std::decay_t<decltype(row)>::Type;
    return std::get<T>(message.content.emplace<Operation>(std::in_place_type<T>));
  };
  while (!in.done()) {
    WireTag tag;
    bool known = false;
    if (!in.Tag(&tag)) return trouble.At("", in.error()), trouble.ToStatus(kName);
    const bool given = message.content.index() != 0;
    if (tag.number == 1 && tag.type == WireType::kVarint) {
      if (!ReadField(in, "op_id", 0, message.op_id, trouble)) return trouble.ToStatus(kName);
      continue;
    }
    if (tag.number == kHelloCase.number) {
      if (!ReadCase(in, tag, std::tuple(kHelloCase), given, emplace_hello, known, trouble)) {
        return trouble.ToStatus(kName);
      }
    } else if (!ReadCase(in, tag, kOperations, given, emplace_operation, known, trouble)) {
      return trouble.ToStatus(kName);
    }
    if (!known && !in.Skip(tag, 0)) {
      return trouble.At(std::to_string(tag.number).c_str(), in.error()), trouble.ToStatus(kName);
    }
  }
  return result;
}

Result<std::optional<ServerMessage>> DecodeServerMessage(std::span<const std::byte> bytes) {
  constexpr char kName[] = "ServerMessage";
  WireReader in(bytes);
  Result<std::optional<ServerMessage>> result{std::optional<ServerMessage>()};
  std::optional<ServerMessage>& message = *result;
  Trouble trouble;
  const auto emplace = [&](const auto& row) -> auto& {
    using T = typename std::decay_t<decltype(row)>::Type;
    return std::get<T>(message.emplace(std::in_place_type<T>));
  };
  while (!in.done()) {
    WireTag tag;
    bool known = false;
    if (!in.Tag(&tag)) return trouble.At("", in.error()), trouble.ToStatus(kName);
    if (!ReadCase(in, tag, kServerMessages, message.has_value(), emplace, known, trouble)) {
      return trouble.ToStatus(kName);
    }
    if (!known && !in.Skip(tag, 0)) {
      return trouble.At(std::to_string(tag.number).c_str(), in.error()), trouble.ToStatus(kName);
    }
  }
  if (message) std::visit([](auto& content) { Settle(content); }, *message);
  return result;
}

}  // namespace nd::session
