// SPDX-License-Identifier: Apache-2.0
// The numbers and switches that the core obeys. Defaults in one place; the file is read by daemon/config.
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
  // A handshake that is out longer than this no longer counts as in flight: what it waits for then is the
  // peer's application, and a slow application must not hold up connections to others.
  Duration handshake_pace = std::chrono::seconds(1);
  // Ephemeral ND ports, inclusive.
  std::uint16_t ephemeral_first = 49152, ephemeral_last = 65535;
  // Ports below this need uid 0 (0: off).
  std::uint16_t privileged_ports_below = 0;
  // A goodbye may stay unanswered this long.
  Duration disconnect_timeout = std::chrono::seconds(5);
  // Administrator-set maximum for Connect..CompleteConnect and Accept..established; zero: none.
  Duration establish_timeout = Duration::zero();

  // Compatibility switches (docs/status.md); default is the specification's text.
  bool accept_refused_on_reject = false;  // Accept reports CONNECTION_REFUSED when the active side said no.
  bool allow_same_owner_bind_sharing = false;
  bool bad_network_name = false;  // BAD_NETWORK_NAME for an unusable destination.
  bool notify_success_on_local_disconnect = false;
  bool flush_on_peer_disconnect = false;  // Receives complete CANCELED when the peer says goodbye.
};

}  // namespace nd::core
