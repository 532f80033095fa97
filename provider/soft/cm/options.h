// SPDX-License-Identifier: Apache-2.0
// What an administrator can say about soft adapters (docs/configuration.md, [[adapter]]).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "nd/types.h"

namespace nd::provider::soft {

struct Network {
  Address address;
  std::uint8_t bits = 0;
};

struct AdapterOptions {
  std::string name = "soft0";
  // Empty: every address of this host, loopback included, followed as interfaces come and go.
  std::vector<Address> addresses;
  bool tcp_mode = false;          // false: separate ND port space behind one TCP port.
  std::uint16_t tcp_port = 4794;  // separate mode: where this adapter's addresses listen.
  // Separate mode: destinations that are spoken to in tcp mode, and may connect so.
  std::vector<Network> tcp_networks;
  bool crc = true;
  std::uint32_t max_inbound_read_limit = 128, max_outbound_read_limit = 128;
};

struct Options {
  std::vector<AdapterOptions> adapters;
  Duration connect_timeout = std::chrono::seconds(10);  // SYN and MPA reply of a peer that is silent.
  Duration request_timeout = std::chrono::seconds(5);   // A TCP connection that sends no MPA request.
  Duration keepalive = std::chrono::seconds(30);        // A peer host that vanished during a handshake.
  std::uint32_t max_half_open = 4096;                   // Inbound TCP connections without a whole request.
};

}  // namespace nd::provider::soft
