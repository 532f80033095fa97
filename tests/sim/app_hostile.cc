// SPDX-License-Identifier: Apache-2.0
// A hostile application. The broker must complete each of its operations, and other clients must not be
// affected.
#include "tests/sim/app.h"

#include <algorithm>
#include <utility>

namespace nd::sim {

// Indexes of operations in session::Operation.
constexpr std::size_t kAdapter = 1, kPair = 4, kConnector = 5, kListener = 6, kEndpoint = 7;

core::Handle App::AnyHandle(std::size_t made_by) {
  const auto own = mine_.find(made_by);
  if (own != mine_.end() && dice().Chance(850)) {
    const auto size = static_cast<std::uint32_t>(own->second.size());
    return own->second[size - 1 - dice().Below(std::min(size, 5u))];
  }
  const std::uint32_t kind = dice().Below(100);
  if (kind < 75 && !common_.handles.empty()) {
    // Mostly recent handles, of any client.
    const auto size = static_cast<std::uint32_t>(common_.handles.size());
    return common_.handles[size - 1 - dice().Below(std::min(size, kind < 60 ? 30u : 400u))];
  }
  if (kind < 85) return core::Handle::Make(host().epoch(), dice().Below(40), 1 + dice().Below(4));
  if (kind < 92) return core::Handle::Make(dice().Below(8), dice().Below(40), dice().Below(4));
  if (kind < 96) return {};
  return {dice().Next()};
}

session::Operation App::RandomOp() {
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
      if (dice().Chance(500)) connect.source = local;
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
      return dice().Chance(500) ? session::Operation(core::NotifyDisconnectOp{AnyHandle(kConnector)})
                                : session::Operation(core::DisconnectOp{AnyHandle(kConnector)});
    case 22:
      return core::CancelOp{AnyHandle(dice().Chance(700) ? kConnector : kListener)};
    case 23: {
      core::ListenOp listen;
      listen.listener = AnyHandle(kListener);
      listen.backlog = dice().Below(5);
      if (dice().Chance(500)) listen.local = local;
      listen.connect_events = dice().Chance(300);
      return listen;
    }
    case 24:
      return dice().Chance(300)
                 ? session::Operation(core::ControlConnectEventsOp{AnyHandle(kListener), dice().Chance(500)})
                 : session::Operation(
                       core::GetConnectionRequestOp{AnyHandle(kListener), AnyHandle(kConnector)});
    case 25: {
      core::TransportReportOp report;
      report.connector = AnyHandle(kConnector);
      report.what = static_cast<core::TransportReportOp::What>(1 + dice().Below(3));
      report.reason = static_cast<DisconnectReason>(dice().Below(256));
      return report;
    }
    default: {
      core::ReattachOp claim{dice().Chance(500) ? adapter_ : AnyHandle(kAdapter),
                             dice().Chance(300) ? core::Handle{} : AnyHandle(kPair),
                             local,
                             Somewhere(),
                             limits,
                             dice().Chance(500)};
      // Of a connection that it once had, of another one, or invented.
      const std::uint32_t owner = dice().Chance(700) ? options_.uid : 1000 + dice().Below(3);
      if (dice().Chance(800)) {
        claim.proof = host().Prove({options_.adapter, claim.local, claim.remote, claim.passive, owner});
      }
      if (dice().Chance(100)) claim.proof.push_back(1);
      claim.receive_depth = dice().Below(20);
      claim.initiator_depth = dice().Below(20);
      return claim;
    }
  }
}

void App::Try() {
  session::Operation op = RandomOp();
  const std::size_t made_by = op.index();
  Submit(std::move(op), [this, made_by](const core::Complete& complete) {
    if (complete.status.ok() && complete.reply.handle) mine_[made_by].push_back(complete.reply.handle);
  });
}

void App::MixAdapters() {
  core::OpenAdapterOp open;
  open.name = options_.adapter == "a0" ? "a1" : "a0";
  Submit(open, [this](const core::Complete& other) {
    if (!other.status.ok()) return;
    core::CreateQueuePairOp pair;
    pair.adapter = other.reply.handle;
    Submit(pair, [this](const core::Complete& qp) {
      if (!qp.status.ok()) return;
      Submit(core::CreateConnectorOp{adapter_},
             [this, queue_pair = qp.reply.handle](const core::Complete& made) {
               core::ConnectOp connect;
               connect.connector = made.reply.handle;
               connect.queue_pair = queue_pair;
               connect.remote = Somewhere();
               if (made.status.ok()) Submit(connect, [](const core::Complete&) {});
             });
    });
  });
}

void App::Misbehave() {
  const std::uint32_t what = dice().Below(100);
  if (what < 70) {
    Try();
  } else if (what < 85 && !sent_operations_.empty()) {
    const auto& [id, op] = dice().Pick(sent_operations_);
    host().Submit(token_, id, dice().Chance(500) ? op : RandomOp());
  } else if (what < 96) {
    for (std::uint32_t i = dice().Below(25); i > 0; --i) Try();
  } else if (what < 97) {
    MixAdapters();
  } else if (what < 98) {
    host().Submit(token_, 0, RandomOp());  // Ends the session.
  } else {
    Die();
  }
}

}  // namespace nd::sim
