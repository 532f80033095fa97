// SPDX-License-Identifier: Apache-2.0
// The settings of the core and their defaults; daemon/config reads the file.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace nd::core {

struct Settings {
  // Listener: requests that may wait when the application asks for 0 or for more than this.
  std::uint32_t max_backlog = 1024;
  // Handshakes that this host has in flight on the wire as the active side; the rest wait in order.
  std::uint32_t max_handshakes_in_flight = 256;
  // A handshake that takes longer than this no longer counts as in flight: it then waits for the application
  // of the peer, and a slow application must not delay connections to others.
  Duration handshake_pace = std::chrono::seconds(1);
  // Ephemeral ND ports, inclusive.
  std::uint16_t ephemeral_first = 49152, ephemeral_last = 65535;
  // Ports below this need uid 0 (0: off).
  std::uint16_t privileged_ports_below = 0;
  // The time-out for the answer to a disconnect.
  Duration disconnect_timeout = std::chrono::seconds(5);
  // Administrator-set maximum for Connect..CompleteConnect and Accept..established; zero: none.
  Duration establish_timeout = Duration::zero();

  // Compatibility switches (docs/status.md); the defaults follow the specification.
  bool accept_refused_on_reject = false;  // Accept reports CONNECTION_REFUSED when the active side rejected.
  bool allow_same_owner_bind_sharing = false;
  bool bad_network_name = false;  // BAD_NETWORK_NAME for an unusable destination.
  bool notify_success_on_local_disconnect = false;
  bool flush_on_peer_disconnect = false;  // Receives complete with CANCELED when the peer disconnects.
};

}  // namespace nd::core
