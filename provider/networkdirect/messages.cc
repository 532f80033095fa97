// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/messages.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace nd::provider::networkdirect {
namespace {

constexpr std::size_t kMaxText = 2048;

struct WireAddress {
  std::uint8_t family = 0, length = 0;
  std::uint16_t port = 0;
  std::uint8_t ip[16] = {};
};

struct Head {
  std::uint16_t kind = 0, listens = 0;
  std::uint32_t queue_pair = 0;
  std::uint64_t number = 0, endpoint = 0;
  std::uint32_t inbound = 0, outbound = 0;
  WireAddress local, remote;
  std::uint32_t code = 0;
  std::uint8_t detail = 0, reserved[3] = {};
  ClassId class_id{};
  // Behind the head: the data, the text, the sentence of the status.
  std::uint16_t data = 0, text = 0, sentence = 0, spare = 0;
};
static_assert(sizeof(Head) == 104);

WireAddress WireOf(const Address& address) {
  WireAddress out;
  out.family = static_cast<std::uint8_t>(address.family());
  out.length = static_cast<std::uint8_t>(address.ip().size());
  out.port = address.port();
  std::copy(address.ip().begin(), address.ip().end(), reinterpret_cast<char*>(out.ip));
  return out;
}

// An address that is not well formed stays so; its user judges it.
Address AddressOf(const WireAddress& wire) {
  const std::size_t length = std::min<std::size_t>(wire.length, sizeof wire.ip);
  return Address::FromParts(static_cast<Address::Family>(wire.family),
                            {reinterpret_cast<const char*>(wire.ip), length}, wire.port);
}

bool IsKindOfMessage(std::uint16_t kind) {
  const auto within = [kind](Kind first, Kind last) {
    return kind >= static_cast<std::uint16_t>(first) && kind <= static_cast<std::uint16_t>(last);
  };
  return within(Kind::kHello, Kind::kLost) || within(Kind::kWelcome, Kind::kAbort);
}

}  // namespace

std::vector<std::byte> Encode(const Message& message) {
  Head head;
  head.kind = static_cast<std::uint16_t>(message.kind);
  head.listens = message.listens ? 1 : 0;
  head.queue_pair = message.queue_pair;
  head.number = message.number;
  head.endpoint = message.endpoint;
  head.inbound = message.limits.inbound;
  head.outbound = message.limits.outbound;
  head.local = WireOf(message.local);
  head.remote = WireOf(message.remote);
  head.code = static_cast<std::uint32_t>(message.status.code());
  head.detail = static_cast<std::uint8_t>(message.status.detail());
  head.class_id = message.class_id;
  const std::string_view sentence = message.status.message();
  head.data = static_cast<std::uint16_t>(std::min(message.data.size(), kMaxData));
  head.text = static_cast<std::uint16_t>(std::min(message.text.size(), kMaxText));
  head.sentence = static_cast<std::uint16_t>(std::min(sentence.size(), kMaxText));
  std::vector<std::byte> out(sizeof head + head.data + head.text + head.sentence);
  std::byte* to = out.data();
  const auto put = [&to](const void* from, std::size_t size) {
    if (size != 0) std::memcpy(to, from, size);
    to += size;
  };
  put(&head, sizeof head);
  put(message.data.data(), head.data);
  put(message.text.data(), head.text);
  put(sentence.data(), head.sentence);
  return out;
}

std::optional<Message> Decode(std::span<const std::byte> bytes) {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::size_t behind = std::size_t{head.data} + head.text + head.sentence;
  const bool right = IsKindOfMessage(head.kind) && head.data <= kMaxData && head.text <= kMaxText &&
                     head.sentence <= kMaxText && bytes.size() == sizeof head + behind &&
                     IsKnown(StatusCode{head.code}) &&
                     head.detail <= static_cast<std::uint8_t>(Detail::kStaleConnection);
  if (!right) return std::nullopt;
  const auto* from = reinterpret_cast<const char*>(bytes.data()) + sizeof head;
  const auto take = [&from](std::size_t size) {
    return std::string_view(std::exchange(from, from + size), size);
  };
  Message message;
  message.kind = Kind{head.kind};
  message.listens = head.listens != 0;
  message.queue_pair = head.queue_pair;
  message.number = head.number;
  message.endpoint = head.endpoint;
  message.limits = {head.inbound, head.outbound};
  message.local = AddressOf(head.local);
  message.remote = AddressOf(head.remote);
  message.class_id = head.class_id;
  const std::string_view data = take(head.data);
  message.data.assign(data.begin(), data.end());
  message.text = take(head.text);
  message.status = Status(StatusCode{head.code}, std::string(take(head.sentence)), Detail{head.detail});
  return message;
}

Payload PayloadFor(std::uint64_t number) {
  Payload payload;
  payload.number = std::bit_cast<decltype(payload.number)>(number);
  return payload;
}

std::uint64_t NumberIn(const Payload& payload) {
  return std::bit_cast<std::uint64_t>(payload.number);
}

}  // namespace nd::provider::networkdirect
