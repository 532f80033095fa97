// SPDX-License-Identifier: Apache-2.0
// Descriptors on their way to clients: the descriptors that an operation needs, the hand-over of a transport,
// and the rule for late clients.
#include <string>
#include <utility>

#include "daemon/ops/probes.h"
#include "daemon/shell/broker_shell.h"
#include "session/ahead.h"
#include "session/makes_queue_pair.h"

namespace nd::service {
namespace {

bool NeedsHandOver(const session::Operation& op) {
  return std::holds_alternative<core::ConnectOp>(op) || std::holds_alternative<core::AcceptOp>(op) ||
         std::holds_alternative<core::CompleteConnectOp>(op);
}

}  // namespace

Status BrokerShell::Provide(ClientSession& session, const session::Operation& op) {
  if (NeedsHandOver(op) && !reaper_.HasRoom(session.peer().uid)) {
    return {StatusCode::kInsufficientResources,
            "too many sockets of this user wait to be closed; connect again when they are", Detail::kQuota};
  }
  if (!session::MakesQueuePair(op)) return Status::Ok();
  const core::SessionId id = session.id();
  if (!running_) Drain();  // Queued events could change the next slot.
  const std::uint32_t slot = core_->NextCounterSlot(id);
  if (session.pages.Has(slot)) return Status::Ok();
  Result<UniqueFd> page = session.pages.Make(slot);
  // The page of an offered slot has been there since the offer.
  if (!page.ok()) return session::IsMadeAhead(op) ? Status::Ok() : page.status();
  EndIf(id, session.SendPage(slot, std::move(page.value())));
  return Status::Ok();
}

bool BrokerShell::Offer(core::SessionId id, core::SpareKind kind, std::uint32_t index, std::uint32_t value) {
  ClientSession* const session = Find(id);
  return session != nullptr && session->pages.Offer(kind, index, value);
}

bool BrokerShell::Withdraw(core::SessionId id, core::SpareKind kind, std::uint32_t index) {
  ClientSession* const session = Find(id);
  return session == nullptr || session->pages.Withdraw(kind, index);
}

void BrokerShell::Do(core::HandOffTo& action) {
  ClientSession* session = Find(action.session);
  if (session == nullptr) return;
  Result<provider::HandOff> hand_off = manager_->TakeHandOff(action.id);
  if (!hand_off.ok()) return EndSession(action.session, hand_off.status());
  hand_off->record.id = action.hand_off;
  hand_off->record.connector = action.connector.value;
  hand_off->record.read_inbound = action.limits.inbound;
  hand_off->record.read_outbound = action.limits.outbound;
  if (action.flush_on_peer_disconnect) hand_off->record.flags |= provider::kHandOffFlushOnGoodbye;
  hand_off->record.fd_count = static_cast<std::uint32_t>(hand_off->fds.size());
  NDB_PROBE(hand_off, action.session, action.connector.value, action.id, hand_off->record.transport);
  links_[action.connector.slot()] = {action.connector, hand_off->transport, hand_off->wire_local,
                                     hand_off->wire_peer};
  std::function<void(std::vector<UniqueFd>)> close;
  if (hand_off->close_may_block) {
    close = [this, uid = session->peer().uid](std::vector<UniqueFd> fds) {
      reaper_.Close(uid, std::move(fds));
    };
  }
  EndIf(action.session, session->Send(std::move(hand_off.value()), close));
}

// A stopped process cannot acknowledge, which is not an offence. It keeps its session as long as other
// clients do not suffer: while there is room for descriptors in flight, and the messages behind them stay
// within the bound for a client that does not read.
bool BrokerShell::MayBeLate(core::SessionId id) {
  const ClientSession* const session = Find(id);
  return session != nullptr && !in_flight_.Crowded(session->peer().uid) &&
         session->waiting_bytes() <= options_.config.limits.session_queue_bytes;
}

}  // namespace nd::service
