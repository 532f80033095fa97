// SPDX-License-Identifier: Apache-2.0
// One row per operation, in the column order of the specification, for comparison by eye. Cells that depend
// on more than the state are marked and decided below.
#include "daemon/core/connector_table.h"

#include <array>

namespace nd::core {
namespace {

enum Cell : std::uint8_t {
  kOk,
  kCI,
  kCA,
  kAAA,
  kIDS,
  kANA,   // ADDRESS_NOT_ASSOCIATED
  kCD,    // CONNECTION_DISCONNECTED
  kFlag,  // Depends on the flags.
};

constexpr std::array<std::array<Cell, kConnectorStates>, kConnectorOps> kTable = {{
    // U     B      W      C      R      K      I      A      E      P      D      X
    {kOk, kAAA, kAAA, kAAA, kAAA, kAAA, kAAA, kAAA, kAAA, kAAA, kAAA, kAAA},  // Bind
    {kANA, kOk, kIDS, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kIDS},          // Connect ND2
    {kOk, kIDS, kIDS, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kIDS},          // Connect NDK
    {kCI, kCI, kCI, kCI, kOk, kCI, kCI, kCI, kCI, kCI, kCI, kFlag},           // CompleteConnect
    {kCI, kCI, kCI, kCI, kCA, kCA, kOk, kCA, kCA, kCA, kCA, kFlag},           // Accept
    {kCI, kCI, kCI, kCI, kOk, kIDS, kOk, kIDS, kIDS, kIDS, kIDS, kFlag},      // Reject
    {kCI, kCI, kCI, kCI, kOk, kOk, kOk, kOk, kOk, kOk, kCI, kCI},             // GetReadLimits
    {kFlag, kFlag, kCI, kCI, kOk, kOk, kOk, kOk, kOk, kOk, kCI, kFlag},       // GetPrivateData
    {kCI, kOk, kCI, kOk, kOk, kOk, kOk, kOk, kOk, kOk, kOk, kFlag},           // GetLocalAddress
    {kCI, kCI, kCI, kOk, kOk, kOk, kOk, kOk, kOk, kOk, kOk, kCI},             // GetPeerAddress
    {kCI, kCI, kCI, kCI, kCI, kCI, kCI, kCI, kOk, kOk, kCD, kFlag},           // NotifyDisconnect
    {kCI, kCI, kCI, kCI, kCI, kCI, kCI, kCI, kOk, kOk, kCI, kCI},             // Disconnect
    {kOk, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kCA, kCA},             // GetConnectionRequest
}};

StatusCode ByFlags(ConnectorOp op, const ConnectorFlags& flags) {
  switch (op) {
    case ConnectorOp::kCompleteConnect:
      if (flags.completion_told) return StatusCode::kConnectionInvalid;
      if (flags.withdrawn_replied) return StatusCode::kConnectionAborted;
      if (flags.expired_replied) return StatusCode::kIoTimeout;
      break;
    case ConnectorOp::kAccept:
      if (flags.withdrawn_incoming) return StatusCode::kConnectionAborted;
      break;
    case ConnectorOp::kReject:
      if (flags.withdrawn_incoming || flags.withdrawn_replied) return StatusCode::kConnectionAborted;
      break;
    case ConnectorOp::kGetPrivateData:
      if (flags.refusal_data) return StatusCode::kSuccess;
      break;
    case ConnectorOp::kGetLocalAddress:
      if (flags.was_bound) return StatusCode::kSuccess;
      break;
    default:  // NotifyDisconnect, the last of the rows above with such a cell.
      if (flags.was_connected) {
        return flags.notify_success ? StatusCode::kSuccess : StatusCode::kConnectionDisconnected;
      }
      break;
  }
  return StatusCode::kConnectionInvalid;
}

}  // namespace

std::string_view Name(ConnectorState state) {
  static constexpr std::array<std::string_view, kConnectorStates> kNames = {
      "Unbound",  "Bound",     "Waiting",   "Connecting", "Replied",       "Completing",
      "Incoming", "Accepting", "Connected", "PeerClosed", "Disconnecting", "Dead"};
  const auto index = static_cast<std::size_t>(state);
  return index < kNames.size() ? kNames[index] : "?";
}

StatusCode Judge(ConnectorOp op, ConnectorState state, const ConnectorFlags& flags) {
  // Codes in the order of Cell.
  static constexpr std::array<StatusCode, kFlag> kCodes = {
      StatusCode::kSuccess,
      StatusCode::kConnectionInvalid,
      StatusCode::kConnectionActive,
      StatusCode::kAddressAlreadyAssociated,
      StatusCode::kInvalidDeviceState,
      StatusCode::kAddressNotAssociated,
      StatusCode::kConnectionDisconnected,
  };
  const Cell cell = kTable[static_cast<std::size_t>(op)][static_cast<std::size_t>(state)];
  if (cell == kFlag) return ByFlags(op, flags);
  if (cell == kCD && flags.notify_success) return StatusCode::kSuccess;
  return kCodes[cell];
}

}  // namespace nd::core
