// SPDX-License-Identifier: Apache-2.0
#include "session/codec.h"

#include <algorithm>
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
void WriteMessage(WireWriter& out, const M& message);

template <typename M>
void WriteNested(WireWriter& out, std::uint32_t number, const M& message) {
  out.Tag(number, WireType::kLengthDelimited);
  const std::size_t mark = out.Begin();
  if constexpr (HasParts<M>) {
    WriteMessage(out, Split(message));
  } else {
    WriteMessage(out, message);
  }
  out.End(mark);
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

template <typename T>
void WriteField(WireWriter& out, std::uint32_t number, const T& value) {
  if constexpr (Repeated<T>::value) {
    for (const auto& element : value) WriteNested(out, number, element);
  } else if constexpr (requires { value.has_value(); }) {
    if (value.has_value()) WriteNested(out, number, *value);
  } else if constexpr (std::is_same_v<T, Status>) {
    WriteNested(out, number, value);
  } else if constexpr (TypeOf<T>() == FieldType::kMessage) {
    if (!(value == T())) WriteNested(out, number, value);
  } else if constexpr (TypeOf<T>() == FieldType::kString || TypeOf<T>() == FieldType::kBytes) {
    if (value.empty()) return;
    out.Tag(number, WireType::kLengthDelimited);
    out.LengthDelimited(BytesOf(value));
  } else {
    if (NumberOf(value) == 0) return;
    out.Tag(number, WireType::kVarint);
    out.Varint(NumberOf(value));
  }
}

template <typename M>
void WriteMessage(WireWriter& out, const M& message) {
  std::apply([&](const auto&... field) { (WriteField(out, field.number, field.In(message)), ...); },
             Table<M>::kFields);
}

template <typename Variant>
void WriteCase(WireWriter& out, const auto& rows, const Variant& value) {
  std::apply(
      [&](const auto&... row) {
        const auto write = [&](const auto& one) {
          using T = typename std::decay_t<decltype(one)>::Type;
          if (const T* content = std::get_if<T>(&value)) WriteNested(out, one.number, *content);
        };
        (write(row), ...);
      },
      rows);
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
    message = Join(std::move(parts));
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
    } else if constexpr (std::is_same_v<T, std::string>) {
      value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!IsUtf8(value)) return trouble.At(name, "it is not UTF-8");
    } else if constexpr (std::is_same_v<T, Bytes>) {
      const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
      value.assign(first, first + bytes.size());
    } else {
      if (given) return trouble.At(name, kGivenTwice);
      if constexpr (requires { value.has_value(); }) {
        if (!ReadNested(bytes, depth + 1, value.emplace(), trouble)) return trouble.In(name);
      } else {
        if (!ReadNested(bytes, depth + 1, value, trouble)) return trouble.In(name);
      }
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

// Reads the field into `value` if it is one of `rows`.
template <typename Variant>
bool ReadCase(WireReader& in, WireTag tag, const auto& rows, bool given, Variant& value, bool& known,
              Trouble& trouble) {
  bool good = true;
  const auto read = [&](const auto& row) {
    if (row.number != tag.number || tag.type != WireType::kLengthDelimited) return false;
    using T = typename std::decay_t<decltype(row)>::Type;
    known = true;
    std::span<const std::byte> bytes;
    if (!in.LengthDelimited(&bytes)) {
      good = trouble.At(row.field, in.error());
    } else if (given) {
      good = trouble.At(row.field, "it is not the only content of the message");
    } else {
      T& content = value.template emplace<T>();
      good = ReadMessage(bytes, 1, content, trouble);
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
  return {static_cast<std::uint32_t>(address.family()), Bytes(ip.begin(), ip.end()), address.port()};
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

Status Join(StatusParts parts) {
  Detail detail{};
  SetNumber(parts.detail, detail);
  return {static_cast<StatusCode>(parts.code), std::move(parts.message), detail, parts.native};
}

const char* OperationName(std::size_t index) {
  static constexpr auto kNames =
      std::apply([](const auto&... row) { return std::array{row.name...}; }, kOperations);
  return index < kNames.size() ? kNames[index] : "?";
}

void Append(const ClientMessage& message, std::vector<std::byte>* out) {
  WireWriter writer(out);
  WriteField(writer, 1, message.op_id);
  if (const Hello* hello = std::get_if<Hello>(&message.content)) {
    WriteNested(writer, kHelloCase.number, *hello);
  } else if (const Operation* op = std::get_if<Operation>(&message.content)) {
    WriteCase(writer, kOperations, *op);
  }
}

void Append(const ServerMessage& message, std::vector<std::byte>* out) {
  WireWriter writer(out);
  WriteCase(writer, kServerMessages, message);
}

Result<ClientMessage> DecodeClientMessage(std::span<const std::byte> bytes) {
  constexpr char kName[] = "ClientMessage";
  WireReader in(bytes);
  ClientMessage message;
  Trouble trouble;
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
      std::variant<Hello> hello;
      if (!ReadCase(in, tag, std::tuple(kHelloCase), given, hello, known, trouble)) {
        return trouble.ToStatus(kName);
      }
      if (known) {
        message.content = std::move(std::get<Hello>(hello));
        continue;
      }
    }
    Operation op;
    if (!ReadCase(in, tag, kOperations, given, op, known, trouble)) return trouble.ToStatus(kName);
    if (known) {
      message.content = std::move(op);
      continue;
    }
    if (!in.Skip(tag, 0)) {
      return trouble.At(std::to_string(tag.number).c_str(), in.error()), trouble.ToStatus(kName);
    }
  }
  return message;
}

Result<std::optional<ServerMessage>> DecodeServerMessage(std::span<const std::byte> bytes) {
  constexpr char kName[] = "ServerMessage";
  WireReader in(bytes);
  std::optional<ServerMessage> message;
  Trouble trouble;
  while (!in.done()) {
    WireTag tag;
    bool known = false;
    if (!in.Tag(&tag)) return trouble.At("", in.error()), trouble.ToStatus(kName);
    ServerMessage read;
    if (!ReadCase(in, tag, kServerMessages, message.has_value(), read, known, trouble)) {
      return trouble.ToStatus(kName);
    }
    if (known) {
      message = std::move(read);
    } else if (!in.Skip(tag, 0)) {
      return trouble.At(std::to_string(tag.number).c_str(), in.error()), trouble.ToStatus(kName);
    }
  }
  if (message) std::visit([](auto& content) { Settle(content); }, *message);
  return message;
}

}  // namespace nd::session
