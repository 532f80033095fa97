// SPDX-License-Identifier: Apache-2.0
// An application that tries everything: the broker must answer each of it and nobody else may notice.
#include "tests/sim/app.h"

#include <algorithm>
#include <utility>

namespace nd::sim {

// Indexes of operations in core::Op.
constexpr std::size_t kAdapter = 1, kPair = 4, kConnector = 5, kListener = 6, kEndpoint = 7;

core::Handle App::AnyHandle(std::size_t made_by) {
  const auto own = mine_.find(made_by);
  if (own != mine_.end() && dice().Chance(850)) {
    const auto size = static_cast<std::uint32_t>(own->second.size());
    return own->second[size - 1 - dice().Below(std::min(size, 5u))];
  }
  const std::uint32_t kind = dice().Below(100);
  if (kind < 75 && !common_.handles.empty()) {
    // Mostly new ones, of anybody.
    const auto size = static_cast<std::uint32_t>(common_.handles.size());
    return common_.handles[size - 1 - dice().Below(std::min(size, kind < 60 ? 30u : 400u))];
  }
  if (kind < 85) return core::Handle::Make(host().epoch(), dice().Below(40), 1 + dice().Below(4));
  if (kind < 92) return core::Handle::Make(dice().Below(8), dice().Below(40), dice().Below(4));
  if (kind < 96) return {};
  return {dice().Next()};
}

core::Op App::RandomOp() {
  const Bytes data(dice().Chance(250) ? 300 : dice().Below(20), 1);
  const auto length = static_cast<std::uint32_t>(data.size() + (dice().Chance(50) ? 1 : 0));
  const std::uint16_t port =
      static_cast<std::uint16_t>(dice().Chance(300) ? 0 : options_.port + dice().Below(3));
  const Address local = dice().Chance(50) ? Address() : Local(port, dice().Chance(100));
  const ReadLimits limits{dice().Below(300), dice().Below(300)};
  switch (dice().Below(27)) {
    case 0:
      return core::ListAdaptersOp{};
    case 1: {
      core::OpenAdapterOp open;
      constexpr const char* kNames[] = {"a0", "a1", "v0", "", "none"};
      open.name = kNames[dice().Below(5)];
      if (dice().Chance(300)) open.local = local;
      return open;
    }
    case 2:
      return core::ResolveAddressOp{AnyHandle(kAdapter), dice().Chance(100) ? Address() : Somewhere()};
    case 3:
      return core::CheckAddressOp{AnyHandle(kAdapter), local};
    case 4:
      return core::CreateQueuePairOp{dice().Chance(400) ? adapter_ : AnyHandle(kAdapter), dice().Below(20),
                                     dice().Chance(50) ? 1u << 30 : 4, 1};
    case 5:
      return core::CreateConnectorOp{dice().Chance(700) ? adapter_ : AnyHandle(kAdapter)};
    case 6:
      return core::CreateListenerOp{dice().Chance(700) ? adapter_ : AnyHandle(kAdapter)};
    case 7:
      return core::CreateSharedEndpointOp{dice().Chance(700) ? adapter_ : AnyHandle(kAdapter), local};
    case 8:
    case 9:
      return core::CloseOp{AnyHandle(kPair + dice().Below(4)), dice().Chance(300)};
    case 10:
      return core::BindOp{AnyHandle(dice().Chance(700) ? kConnector : kListener), local};
    case 11:
    case 12:
    case 13: {
      core::ConnectOp connect;
      connect.connector = AnyHandle(kConnector);
      connect.queue_pair = AnyHandle(kPair);
      connect.remote = dice().Chance(50) ? Address() : Somewhere();
      connect.limits = limits;
      connect.private_data = data;
      connect.private_data_length = length;
      connect.has_source = dice().Chance(500);
      connect.source = local;
      if (dice().Chance(500)) connect.shared_endpoint = AnyHandle(kEndpoint);
      return connect;
    }
    case 14:
      return core::CompleteConnectOp{AnyHandle(kConnector), false};
    case 15:
      return core::AcceptOp{AnyHandle(kConnector), AnyHandle(kPair), limits, data, length, true};
    case 16:
      return core::RejectOp{AnyHandle(kConnector), data, length};
    case 17:
      return core::GetReadLimitsOp{AnyHandle(kConnector)};
    case 18:
      return core::GetPrivateDataOp{AnyHandle(kConnector)};
    case 19:
      return core::GetLocalAddressOp{AnyHandle(kConnector + dice().Below(3))};
    case 20:
      return core::GetPeerAddressOp{AnyHandle(kConnector)};
    case 21:
      return dice().Chance(500) ? core::Op(core::NotifyDisconnectOp{AnyHandle(kConnector)})
                                : core::Op(core::DisconnectOp{AnyHandle(kConnector)});
    case 22:
      return core::CancelOp{AnyHandle(dice().Chance(700) ? kConnector : kListener)};
    case 23:
      return core::ListenOp{AnyHandle(kListener), dice().Below(5), dice().Chance(500), local,
                            dice().Chance(300)};
    case 24:
      return dice().Chance(300)
                 ? core::Op(core::ControlConnectEventsOp{AnyHandle(kListener), dice().Chance(500)})
                 : core::Op(core::GetConnectionRequestOp{AnyHandle(kListener), AnyHandle(kConnector)});
    case 25: {
      core::TransportReportOp report;
      report.connector = AnyHandle(kConnector);
      report.what = static_cast<core::TransportReportOp::What>(dice().Below(3));
      report.reason = static_cast<DisconnectReason>(dice().Below(256));
      return report;
    }
    default:
      return core::ReattachOp{dice().Chance(500) ? adapter_ : AnyHandle(kAdapter),
                              AnyHandle(kPair),
                              local,
                              Somewhere(),
                              limits,
                              dice().Chance(500)};
  }
}

void App::Try() {
  core::Op op = RandomOp();
  const std::size_t made_by = op.index();
  Submit(std::move(op), [this, made_by](const core::Complete& complete) {
    if (complete.status.ok() && complete.reply.handle) mine_[made_by].push_back(complete.reply.handle);
  });
}

void App::Misbehave() {
  const std::uint32_t what = dice().Below(100);
  if (what < 70) {
    Try();
  } else if (what < 85 && !said_.empty()) {
    const auto& [id, op] = dice().Pick(said_);
    host().Submit(token_, id, dice().Chance(500) ? op : RandomOp());
  } else if (what < 97) {
    for (std::uint32_t i = dice().Below(25); i > 0; --i) Try();
  } else if (what < 98) {
    host().Submit(token_, 0, RandomOp());  // Ends the session.
  } else {
    Die();
  }
}

}  // namespace nd::sim
