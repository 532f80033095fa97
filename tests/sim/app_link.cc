// SPDX-License-Identifier: Apache-2.0
// An established connection of an application, until all its objects are closed.
#include "provider/soft/transports.h"
#include "tests/sim/app.h"

#include <algorithm>
#include <utility>

namespace nd::sim {

void App::Established(std::uint32_t number, const core::Complete& complete) {
  Link* const link = Find(number);
  if (link == nullptr) return;
  link->completed = true;
  link->hand_off = complete.reply.hand_off;
  link->proof = complete.reply.proof;
  link->limits = complete.reply.limits;
  if (link->hand_off == 0) return CloseLink(number);  // The link ended before it was established.
  Submit(core::GetLocalAddressOp{link->connector}, [this, number](const core::Complete& local) {
    if (Link* const l = Find(number); l != nullptr && local.status.ok()) l->local = local.reply.address;
  });
  Submit(core::GetPeerAddressOp{link->connector}, [this, number](const core::Complete& peer) {
    if (Link* const l = Find(number); l != nullptr && peer.status.ok()) l->remote = peer.reply.address;
  });
  TryUp(*link);
}

void App::TryUp(Link& link) {
  if (!link.completed || !link.arrived || link.up) return;
  const HandOffMessage hand_off = *link.arrived;
  link.arrived.reset();
  const EndId end = hand_off.transport.end;
  const std::uint32_t number = link.number;
  if (hand_off.id != link.hand_off) {
    common_.violation("I4: hand-off " + std::to_string(hand_off.id) + " instead of " +
                      std::to_string(link.hand_off));
  }
  if (link.ending) {
    if (end != 0) common_.net.Close(end, true);
    return;
  }
  link.up = true;
  ++common_.connected;
  link.messages_left = dice().Below(12);
  link.device = end == 0;
  if (!link.device) {
    if (!common_.net.IsOpen(end)) common_.violation("I3: a stream was handed over that is closed");
    const EndId peer = Net::PeerOf(end);
    const auto other = common_.records.find(peer);
    if (other != common_.records.end()) {
      const provider::HandOffRecord& a = hand_off.transport.record;
      const provider::HandOffRecord& b = other->second;
      const auto msn_a = provider::PayloadOf<provider::soft::IwarpPayload>(a);
      const auto msn_b = provider::PayloadOf<provider::soft::IwarpPayload>(b);
      const bool same = a.read_inbound == b.read_outbound && a.read_outbound == b.read_inbound &&
                        ((a.flags ^ b.flags) & (provider::kHandOffCrc | provider::kHandOffConfirm)) == 0 &&
                        ((a.flags ^ b.flags) & provider::kHandOffActive) != 0 &&
                        msn_a.read_msn_out == msn_b.read_msn_in && msn_a.read_msn_in == msn_b.read_msn_out;
      if (!same) common_.violation("b.4: the two ends of a connection were told different things");
    }
    link.talk = std::make_unique<Talk>(
        common_.net, dice(), end, hand_off.transport.record, !common_.net.WasForeign(peer),
        Talk::Callbacks{[this, number](Talk::End how) { StreamEnded(number, how); },
                        [this](const std::string& what) { common_.violation("data: " + what); }});
  }
  if (dice().Chance(300)) Submit(core::NotifyDisconnectOp{link.connector});
  Later([this, number] { Converse(number); });
}

void App::Converse(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending || link->lost) return;
  if (link->talk && link->talk->ended() == Talk::End::kNone && !link->peer_gone && link->messages_left > 0) {
    --link->messages_left;
    if (dice().Chance(300)) {
      link->talk->SendRead();
    } else {
      link->talk->SendMessage();
      ++common_.messages;
    }
    return Later([this, number] { Converse(number); });
  }
  // Ends the link when the application has sent everything; sometimes only after the peer has ended it.
  if (link->peer_gone || dice().Chance(400)) return StartEnding(number);
  common_.schedule.After(dice().Millis(1, dice().Chance(300) ? 12000 : 2000), [this, number, token = token_] {
    if (alive_ && token == token_ && !silent_) StartEnding(number);
  });
}

void App::StreamEnded(std::uint32_t number, Talk::End how) {
  Link* const link = Find(number);
  if (link == nullptr) return;
  link->peer_gone = true;
  if (link->lost || silent_) return;
  if (link->ending && link->reported) return;
  DisconnectReason reason = DisconnectReason::kUnknown;
  if (how == Talk::End::kGoodbye) reason = DisconnectReason::kPeerDisconnected;
  if (how == Talk::End::kReset) reason = DisconnectReason::kPeerProcessDied;
  if (how == Talk::End::kTimeout) reason = DisconnectReason::kTransportRetryExceeded;
  if (link->reported) return FinishGoodbye(number, false);
  core::TransportReportOp report;
  report.connector = link->connector;
  report.what = core::TransportReportOp::What::kPeerClosed;
  report.reason = reason;
  Submit(report);
  Later([this, number] { StartEnding(number); });
}

void App::StartEnding(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending || link->lost) return;
  if (dice().Chance(300)) return CloseLink(number);
  Submit(core::DisconnectOp{link->connector}, [this, number](const core::Complete&) { CloseLink(number); });
  if (dice().Chance(40)) Submit(core::CancelOp{link->connector});
  if (link->talk && dice().Chance(20)) link->talk->SendTerminate();
}

void App::OnCommand(const core::SendTransportCommand& command) {
  using What = core::SendTransportCommand::What;
  Link* const link = FindConnector(command.connector);
  if (command.what == What::kPrepare) {
    core::TransportReportOp report;
    report.connector = command.connector;
    report.what = core::TransportReportOp::What::kPrepared;
    if (dice().Chance(50)) report.status = Status(StatusCode::kInsufficientResources, "no room");
    Later([this, report] { Submit(report); });
    return;
  }
  if (link == nullptr) return;
  const std::uint32_t number = link->number;
  if (command.what == What::kDrop) {
    if (link->talk) link->talk->Close(true);
    link->talk.reset();
    link->peer_gone = true;
    return;
  }
  // Sends a goodbye, waits for that of the peer, and reports the result.
  if (!link->talk || link->peer_gone) return FinishGoodbye(number, false);
  link->reported = true;  // From now on the end of the stream is the answer to Disconnect.
  link->talk->Goodbye();
  if (options_.manners == Manners::kHostile) return;  // Never reports it.
  common_.schedule.After(std::chrono::milliseconds(command.timeout_ms), [this, number, token = token_] {
    if (!alive_ || token != token_ || silent_) return;
    if (const Link* const l = Find(number); l != nullptr && l->reported) FinishGoodbye(number, true);
  });
}

void App::FinishGoodbye(std::uint32_t number, bool timed_out) {
  Link* const link = Find(number);
  if (link == nullptr) return;
  link->reported = false;
  link->peer_gone = true;
  core::TransportReportOp report;
  report.connector = link->connector;
  report.what = core::TransportReportOp::What::kDisconnectDone;
  if (timed_out) report.status = Status(StatusCode::kIoTimeout, "no answer", Detail::kWireTimeout);
  Submit(report);
  // The caller may be a callback of the talk.
  common_.schedule.After(Duration{}, [this, number, timed_out] {
    Link* const l = Find(number);
    if (l == nullptr || !l->talk || !l->peer_gone) return;
    l->talk->Close(timed_out);
    l->talk.reset();
  });
}

void App::CloseLink(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending || link->lost) return;
  link->ending = true;
  const core::Handle connector = link->connector, pair = link->queue_pair;
  const auto close_connector = [this, connector, number](Reply then) {
    if (!connector) return then({});
    Submit(core::CloseOp{connector, false}, std::move(then));
  };
  const bool pair_first = pair && dice().Chance(300);
  if (pair_first) Submit(core::CloseOp{pair, dice().Chance(400)});
  close_connector([this, pair, pair_first, number](const core::Complete&) {
    if (pair && !pair_first) Submit(core::CloseOp{pair, false});
    Forget(number);
  });
}

void App::Forget(std::uint32_t number) {
  const auto found = links_.find(number);
  if (found == links_.end()) return;
  Link& link = *found->second;
  if (link.arrived && link.arrived->transport.end != 0) common_.net.Close(link.arrived->transport.end, true);
  // Later, because the caller is a callback of the talk.
  std::shared_ptr<Talk> talk = std::move(link.talk);
  links_.erase(found);
  if (!talk) return;
  const bool quiet = talk->ended() == Talk::End::kGoodbye;
  common_.schedule.After(Duration{}, [talk, quiet] { talk->Close(!quiet); });
}

}  // namespace nd::sim
