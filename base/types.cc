// SPDX-License-Identifier: Apache-2.0
// Addresses between text, parts and the form of the system.
#include "nd/types.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "base/os/ip_address.h"

namespace nd {
namespace {

std::size_t ExpectedLength(Address::Family family) {
  switch (family) {
    case Address::Family::kIpv4:
      return 4;
    case Address::Family::kIpv6:
      return 16;
    default:
      return 0;
  }
}

Status BadAddress(std::string_view text, std::string_view why) {
  return {StatusCode::kInvalidAddress, "'" + std::string(text) + "' is not an address: " + std::string(why) +
                                           "; expected 1.2.3.4, 1.2.3.4:5, ::1 or [::1]:5"};
}

bool ParsePort(std::string_view text, std::uint16_t* port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *port);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Address Address::FromParts(Family family, std::string_view ip, std::uint16_t port) {
  Address address;
  address.family_ = family;
  address.ip_length_ = static_cast<std::uint8_t>(std::min(ip.size(), address.ip_.size()));
  if (address.ip_length_ != 0) std::memcpy(address.ip_.data(), ip.data(), address.ip_length_);
  address.port_ = port;
  return address;
}

Address Address::V4(std::array<std::uint8_t, 4> ip, std::uint16_t port) {
  return FromParts(Family::kIpv4, {reinterpret_cast<const char*>(ip.data()), ip.size()}, port);
}

Address Address::V6(std::array<std::uint8_t, 16> ip, std::uint16_t port) {
  return FromParts(Family::kIpv6, {reinterpret_cast<const char*>(ip.data()), ip.size()}, port);
}

Result<Address> Address::Parse(std::string_view text) {
  std::string_view host = text;
  std::uint16_t port = 0;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return BadAddress(text, "']' is missing");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && (rest[0] != ':' || !ParsePort(rest.substr(1), &port))) {
      return BadAddress(text, "the port after ']' is not 0-65535");
    }
  } else if (const std::size_t colon = text.find(':');
             colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos) {
    host = text.substr(0, colon);
    if (!ParsePort(text.substr(colon + 1), &port)) return BadAddress(text, "the port is not 0-65535");
  }
  std::array<std::uint8_t, 16> ip{};
  const std::size_t length = os::ParseIp(std::string(host), &ip);
  if (length == 4) return V4({ip[0], ip[1], ip[2], ip[3]}, port);
  if (length == 16) return V6(ip, port);
  return BadAddress(text, "the host part is no IP address (names are not resolved here)");
}

Address Address::WithPort(std::uint16_t port) const {
  Address copy = *this;
  copy.port_ = port;
  return copy;
}

Address Address::FromSockaddr(const sockaddr* address, std::size_t length) {
  std::uint16_t raw_family;
  if (address == nullptr || length < sizeof raw_family) return {};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(address);
  std::memcpy(&raw_family, bytes, sizeof raw_family);
  if (raw_family != os::kFamily4 && raw_family != os::kFamily6) {
    return FromParts(raw_family == os::kNoFamily ? Family::kUnspecified : Family::kOther, {}, 0);
  }
  const Family family = raw_family == os::kFamily4 ? Family::kIpv4 : Family::kIpv6;
  const std::size_t at =
      family == Family::kIpv4 ? offsetof(os::SocketAddress4, ip) : offsetof(os::SocketAddress6, ip);
  const std::size_t present = length > at ? std::min(length - at, ExpectedLength(family)) : 0;
  const bool has_port = length >= sizeof raw_family + sizeof port_;
  const auto port = has_port ? static_cast<std::uint16_t>(bytes[2] << 8 | bytes[3]) : std::uint16_t{0};
  return FromParts(family, {reinterpret_cast<const char*>(bytes) + at, present}, port);
}

std::size_t Address::ToSockaddr(void* storage) const {
  if (!well_formed()) return 0;
  const std::array<std::uint8_t, 2> port{static_cast<std::uint8_t>(port_ >> 8),
                                         static_cast<std::uint8_t>(port_)};
  const auto fill = [&](auto address) {
    std::memcpy(address.ip.data(), ip_.data(), address.ip.size());
    std::memcpy(storage, &address, sizeof address);
    return sizeof address;
  };
  if (family_ == Family::kIpv4) return fill(os::SocketAddress4{os::kFamily4, port, {}, {}});
  return fill(os::SocketAddress6{os::kFamily6, port, 0, {}, 0});
}

bool Address::well_formed() const {
  const std::size_t expected = ExpectedLength(family_);
  return expected != 0 && ip_length_ == expected;
}

bool Address::unspecified() const {
  return well_formed() && std::all_of(ip_.begin(), ip_.begin() + ip_length_, [](auto b) { return b == 0; });
}

bool Address::multicast() const {
  if (!well_formed()) return false;
  if (family_ == Family::kIpv6) return ip_[0] == 0xFF;
  const bool broadcast = std::all_of(ip_.begin(), ip_.begin() + 4, [](auto b) { return b == 0xFF; });
  return (ip_[0] & 0xF0) == 0xE0 || broadcast;
}

std::string Address::IpToString() const {
  if (!well_formed()) return "malformed";
  // A fast path, because addresses are printed often and inet_ntop uses sprintf.
  if (family_ == Family::kIpv4) {
    char text[16];
    char* at = text;
    for (std::size_t i = 0; i < 4; ++i) {
      if (i != 0) *at++ = '.';
      at = std::to_chars(at, text + sizeof text, ip_[i]).ptr;
    }
    return {text, at};
  }
  return os::FormatIp(ip_);
}

std::string Address::ToString() const {
  if (!well_formed()) return "malformed";
  std::string text = IpToString();
  if (family_ == Family::kIpv6) text = "[" + text + "]";
  char port[6] = {':'};
  return text.append(port, std::to_chars(port + 1, port + sizeof port, port_).ptr);
}

std::string_view Name(DisconnectReason reason) {
  static constexpr std::string_view kNames[] = {
      "unknown",          "peer disconnected",        "peer process died",
      "peer broker lost", "transport retry exceeded", "local administrator",
      "adapter disabled", "establishment failed",
  };
  const auto index = static_cast<std::size_t>(reason);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

}  // namespace nd
