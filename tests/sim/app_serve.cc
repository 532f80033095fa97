// SPDX-License-Identifier: Apache-2.0
// The passive side of an application.
#include "tests/sim/app.h"

#include <utility>

namespace nd::sim {

void App::Serve() {
  if (listener_ || !adapter_) return;
  core::CreateListenerOp create;
  create.adapter = adapter_;
  Submit(create, [this](const core::Complete& made) {
    if (!made.status.ok()) return;
    listener_ = made.reply.handle;
    const bool ndk = dice().Chance(400);
    events_ = ndk && dice().Chance(600);
    const Address at = Local(dice().Chance(60) ? std::uint16_t{0} : options_.port, dice().Chance(200));
    core::ListenOp listen;
    listen.listener = listener_;
    listen.backlog = dice().Below(4);
    listen.connect_events = events_;
    const auto listening = [this](const core::Complete& done) {
      if (!done.status.ok()) {
        if (listener_) Submit(core::CloseOp{std::exchange(listener_, {}), false});
        return;
      }
      Submit(core::GetLocalAddressOp{listener_}, [this](const core::Complete& local) {
        if (!local.status.ok()) return;
        Address open = local.reply.address;
        if (open.unspecified()) open = Local(open.port());
        common_.servers.emplace_back(options_.adapter, open);
        if (common_.servers.size() > 24) common_.servers.erase(common_.servers.begin());
      });
      for (std::uint32_t i = dice().Below(3); !events_ && i < 3; ++i) Ask();
    };
    if (ndk) {
      listen.local = at;
      Submit(listen, listening);
      return;
    }
    Submit(core::BindOp{listener_, at}, [this, listen, listening](const core::Complete& bound) {
      if (bound.status.ok()) {
        Submit(listen, listening);
      } else if (listener_) {
        Submit(core::CloseOp{std::exchange(listener_, {}), false});
      }
    });
  });
}

void App::Ask() {
  if (!listener_ || gets_ >= 3 || common_.winding_down) return;
  ++gets_;
  core::CreateConnectorOp create;
  create.adapter = adapter_;
  Submit(create, [this](const core::Complete& made) {
    if (!made.status.ok()) {
      --gets_;
      return;
    }
    const core::Handle connector = made.reply.handle;
    auto link = std::make_unique<Link>();
    link->number = next_link_++;
    link->passive = true;
    link->connector = connector;
    const std::uint32_t number = link->number;
    links_[number] = std::move(link);
    Submit(core::GetConnectionRequestOp{listener_, connector}, [this, number](const core::Complete& got) {
      if (gets_ > 0) --gets_;
      if (!got.status.ok()) return CloseLink(number);
      Incoming(number);
      Later([this] { Ask(); });
    });
    if (dice().Chance(30)) Later([this] { Submit(core::CancelOp{listener_}); });
  });
  if (dice().Chance(30)) {
    const bool pause = dice().Chance(500);
    Submit(core::ControlConnectEventsOp{listener_, pause});
    if (pause) {
      Later([this] {
        if (listener_) Submit(core::ControlConnectEventsOp{listener_, false});
      });
    }
  }
}

void App::Incoming(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending) return;
  if (dice().Chance(300)) Submit(core::GetReadLimitsOp{link->connector});
  if (dice().Chance(300)) Submit(core::GetPrivateDataOp{link->connector});
  if (dice().Chance(300)) Submit(core::GetPeerAddressOp{link->connector});
  if (dice().Chance(50)) return CloseLink(number);
  Later([this, number] { Answer(number); });
}

void App::Answer(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending) return;
  if (dice().Chance(100)) {
    core::RejectOp reject;
    reject.connector = link->connector;
    reject.private_data = Bytes(dice().Below(20), 7);
    reject.private_data_length = static_cast<std::uint32_t>(reject.private_data.size());
    Submit(reject, [this, number](const core::Complete&) {
      if (dice().Chance(300)) {
        if (Link* const l = Find(number)) Submit(core::RejectOp{l->connector, {}, 0});
      }
      CloseLink(number);
    });
    return;
  }
  core::CreateQueuePairOp create;
  create.adapter = adapter_;
  Submit(create, [this, number](const core::Complete& made) {
    Link* const l = Find(number);
    if (!made.status.ok()) return CloseLink(number);
    if (l == nullptr || l->ending) {
      Submit(core::CloseOp{made.reply.handle, false});
      return;
    }
    l->queue_pair = made.reply.handle;
    core::AcceptOp accept;
    accept.connector = l->connector;
    accept.queue_pair = l->queue_pair;
    accept.limits = {dice().Below(20), dice().Below(20)};
    accept.private_data = Bytes(dice().Below(30), 9);
    accept.private_data_length = static_cast<std::uint32_t>(accept.private_data.size());
    accept.disconnect_event = dice().Chance(500);
    Submit(accept, [this, number](const core::Complete& done) {
      if (done.status.ok()) return Established(number, done);
      if (Link* const failed = Find(number); failed != nullptr && dice().Chance(300)) {
        Submit(core::GetPrivateDataOp{failed->connector});
      }
      CloseLink(number);
    });
    if (dice().Chance(40)) {
      Later([this, number] {
        if (Link* const waits = Find(number)) Submit(core::CancelOp{waits->connector});
      });
    }
  });
}

}  // namespace nd::sim
