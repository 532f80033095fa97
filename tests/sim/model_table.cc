// SPDX-License-Identifier: Apache-2.0
// The tables of the specification, in its layout.
#include <algorithm>
#include <array>
#include <sstream>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {

using Code = StatusCode;

// Rows: operations; columns: U B W C R K I A E P D X. "go" lets the operation act, "?" depends.
constexpr const char* kRows[Model::kOperations] = {
    "go AAA AAA AAA AAA AAA AAA AAA AAA AAA AAA AAA",  // Bind
    "ANA go IDS CA CA CA CA CA CA CA CA IDS",          // Connect ND2
    "go IDS IDS CA CA CA CA CA CA CA CA IDS",          // Connect NDK or shared
    "CI CI CI CI go CI CI CI CI CI CI ?",              // CompleteConnect
    "CI CI CI CI CA CA go CA CA CA CA ?",              // Accept
    "CI CI CI CI go IDS go IDS IDS IDS IDS ?",         // Reject
    "CI CI CI CI go go go go go go CI CI",             // GetReadLimits
    "? ? CI CI go go go go go go CI ?",                // GetPrivateData
    "CI go CI go go go go go go go go ?",              // GetLocalAddress
    "CI CI CI go go go go go go go go CI",             // GetPeerAddress
    "CI CI CI CI CI CI CI CI go go CD ?",              // NotifyDisconnect
    "CI CI CI CI CI CI CI CI go go CI CI",             // Disconnect
    "go CA CA CA CA CA CA CA CA CA CA CA",             // as argument of GetConnectionRequest
};

using Cells = std::array<std::array<std::string, Model::kStates>, Model::kOperations>;

const Cells& AllCells() {
  static const Cells cells = [] {
    Cells parsed;
    for (std::size_t row = 0; row < Model::kOperations; ++row) {
      std::istringstream words(kRows[row]);
      for (std::string& cell : parsed[row]) words >> cell;
    }
    return parsed;
  }();
  return cells;
}

}  // namespace

StatusCode Model::Table(Operation operation, State state, const Flags& flags) {
  const std::string& cell = AllCells()[operation][state];
  const Code gone = flags.notify_success ? Code::kSuccess : Code::kConnectionDisconnected;
  if (cell == "go") return Code::kSuccess;
  if (cell == "AAA") return Code::kAddressAlreadyAssociated;
  if (cell == "ANA") return Code::kAddressNotAssociated;
  if (cell == "IDS") return Code::kInvalidDeviceState;
  if (cell == "CA") return Code::kConnectionActive;
  if (cell == "CD") return gone;
  if (cell == "CI") return Code::kConnectionInvalid;
  switch (operation) {
    case kComplete:
      if (flags.told) return Code::kConnectionInvalid;
      if (flags.withdrawn_replied) return Code::kConnectionAborted;
      return flags.expired ? Code::kIoTimeout : Code::kConnectionInvalid;
    case kAccept:
      return flags.withdrawn_incoming ? Code::kConnectionAborted : Code::kConnectionInvalid;
    case kReject:
      return flags.withdrawn_incoming || flags.withdrawn_replied ? Code::kConnectionAborted
                                                                 : Code::kConnectionInvalid;
    case kData:
      return flags.data ? Code::kSuccess : Code::kConnectionInvalid;
    case kLocal:
      return flags.bound ? Code::kSuccess : Code::kConnectionInvalid;
    case kNotify:
      return flags.was_up ? gone : Code::kConnectionInvalid;
    default:
      return Code::kInternalError;
  }
}

ReadLimits Model::Offer(const ReadLimits& asked, const ReadLimits& caps) {
  return {std::min(asked.inbound, caps.inbound), std::min(asked.outbound, caps.outbound)};
}

ReadLimits Model::PassiveSees(const ReadLimits& offer, const ReadLimits& caps) {
  return {std::min(offer.outbound, caps.inbound), std::min(offer.inbound, caps.outbound)};
}

ReadLimits Model::Granted(const ReadLimits& asked, const ReadLimits& offer, const ReadLimits& caps) {
  return {std::min({asked.inbound, caps.inbound, offer.outbound}),
          std::min({asked.outbound, caps.outbound, offer.inbound})};
}

std::optional<ReadLimits> Model::ActiveEnds(const ReadLimits& offer, const ReadLimits& granted,
                                            const ReadLimits& caps) {
  // The local side must serve the reads of the peer; more than offered is accepted only within the limits of
  // the adapter.
  const bool abusive = granted.outbound > offer.inbound;
  if (abusive && granted.outbound > caps.inbound) return std::nullopt;
  return ReadLimits{granted.outbound, std::min(offer.outbound, granted.inbound)};
}

bool Model::Retryable(StatusCode code) {
  return code == Code::kNetworkUnreachable || code == Code::kHostUnreachable ||
         code == Code::kConnectionRefused || code == Code::kIoTimeout ||
         code == Code::kAddressAlreadyExists || code == Code::kInsufficientResources ||
         code == Code::kBadNetworkName;
}

StatusCode Model::Judge(Operation operation, const Thing& c) const {
  if (c.state == U && c.reserving) {
    // A Bind is pending: no other operation may start.
    if (operation == kBind) return Code::kAddressAlreadyAssociated;
    if (operation == kConnectNd2 || operation == kConnectNdk || operation == kGet) {
      return Code::kConnectionActive;
    }
  }
  Flags flags;
  flags.data = c.refusal_data;
  flags.bound = c.hold.has_value();
  flags.was_up = c.was_up;
  flags.withdrawn_incoming = c.withdrawn_incoming;
  flags.withdrawn_replied = c.withdrawn_replied;
  flags.expired = c.expired;
  flags.told = c.told;
  flags.notify_success = settings_.notify_success_on_local_disconnect;
  return Table(operation, c.state, flags);
}

}  // namespace nd::sim
