// SPDX-License-Identifier: Apache-2.0
// The configuration of soft adapters (docs/configuration.md, [[adapter]]).
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
  // Empty: every address of this host, loopback included; the list follows the interfaces.
  std::vector<Address> addresses;
  bool tcp_mode = false;          // false: separate ND port space behind one TCP port.
  std::uint16_t tcp_port = 4794;  // Separate mode: the port on which the addresses of this adapter listen.
  // Separate mode: networks whose connections, in both directions, use tcp mode.
  std::vector<Network> tcp_networks;
  bool crc = true;
  bool datagrams = true;  // UD queue pairs of verbs programs may use the addresses.
  std::uint32_t max_inbound_read_limit = 128, max_outbound_read_limit = 128;
};

struct Options {
  std::vector<AdapterOptions> adapters;
  // Bounds the wait for the SYN-ACK, and for the response to a Read that confirms. Not for the MPA reply,
  // which comes from an application.
  Duration connect_timeout = std::chrono::seconds(10);
  Duration request_timeout =
      std::chrono::seconds(5);                    // Bounds the wait for the MPA request of a TCP connection.
  Duration keepalive = std::chrono::seconds(30);  // Detects that a peer host vanished during a handshake.
  std::uint32_t max_half_open = 4096;             // Inbound TCP connections without a whole request.
};

}  // namespace nd::provider::soft
