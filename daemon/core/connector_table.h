// SPDX-License-Identifier: Apache-2.0
// The table of operations and states (docs/status.md) as data. Pure.
//
// SUCCESS means that the operation may act. Any other status is the answer, and nothing changes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/core/connector_state.h"
#include "nd/status.h"

namespace nd::core {

enum class ConnectorOp : std::uint8_t {
  kBind,
  kConnectNd2,
  kConnectNdk,
  kCompleteConnect,
  kAccept,
  kReject,
  kGetReadLimits,
  kGetPrivateData,
  kGetLocalAddress,
  kGetPeerAddress,
  kNotifyDisconnect,
  kDisconnect,
  kGetConnectionRequest,  // The connector as its argument.
};
inline constexpr std::size_t kConnectorOps = 13;

// Facts that the state alone does not tell.
struct ConnectorFlags {
  bool refusal_data = false;        // Private data of a refusal, or of a failed Accept, is kept.
  bool was_bound = false;           // Dead: it still has its local address.
  bool was_connected = false;       // Dead: it was once Connected.
  bool withdrawn_incoming = false;  // Dead: the peer withdrew while Incoming.
  bool withdrawn_replied = false;   // Dead: the peer withdrew while Replied.
  bool expired_replied = false;     // Dead: establishment expired while Replied.
  bool completion_told = false;     // Dead: a CompleteConnect has reported one of the last two.
  bool notify_success = false;      // Switch: NotifyDisconnect after a local Disconnect succeeds.
};

StatusCode Judge(ConnectorOp op, ConnectorState state, const ConnectorFlags& flags);

}  // namespace nd::core
