// SPDX-License-Identifier: Apache-2.0
// The states of a connector. A file of its own, so that the table can be used without the broker.
//
//   ND2 active  : Unbound -Bind- Bound -Connect- Connecting -peer accepts- Replied -CompleteConnect-
//                 Completing -> Connected
//   NDK active  : Unbound -NdkConnect- Connecting ...; a retryable failure goes back to Unbound (ND2: Bound)
//   passive     : Unbound -GetConnectionRequest- Waiting -request- Incoming -Accept- Accepting -> Connected
//                 (an NDK listener delivers a connector that is Incoming already)
//   teardown    : Connected -peer's goodbye- PeerClosed -Disconnect- Dead
//                 Connected -Disconnect- Disconnecting -answer or timeout- Dead
#pragma once

#include <cstdint>
#include <string_view>

namespace nd::core {

enum class ConnectorState : std::uint8_t {
  kUnbound,
  kBound,
  kWaiting,
  kConnecting,
  kReplied,
  kCompleting,
  kIncoming,
  kAccepting,
  kConnected,
  kPeerClosed,
  kDisconnecting,
  kDead,
};
inline constexpr std::size_t kConnectorStates = 12;
std::string_view Name(ConnectorState state);

}  // namespace nd::core
