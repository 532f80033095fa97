// SPDX-License-Identifier: Apache-2.0
// The active side of an application with all three interfaces, and its return after a restart of the broker.
#include "tests/sim/app.h"

#include <utility>

namespace nd::sim {

void App::Begin() {
  auto made = std::make_unique<Link>();
  made->number = next_link_++;
  made->dialect = dice().Below(4);
  made->remote = Somewhere();
  const std::uint32_t number = made->number;
  const std::uint32_t dialect = made->dialect;
  links_[number] = std::move(made);
  core::CreateQueuePairOp pair;
  pair.adapter = adapter_;
  pair.device_number = number;
  Submit(pair, [this, number, dialect](const core::Complete& qp) {
    if (!qp.status.ok()) return Forget(number);
    Link* const fresh = Find(number);
    if (fresh == nullptr || fresh->ending) {
      // The link was given up in the meantime.
      Submit(core::CloseOp{qp.reply.handle, false});
      return;
    }
    fresh->queue_pair = qp.reply.handle;
    core::CreateConnectorOp create;
    create.adapter = adapter_;
    Submit(create, [this, number, dialect](const core::Complete& c) {
      if (!c.status.ok()) return CloseLink(number);
      Link* const link = Find(number);
      if (link == nullptr || link->ending) {
        Submit(core::CloseOp{c.reply.handle, false});
        return;
      }
      link->connector = c.reply.handle;
      if (dialect >= 2) return Connect(number);
      const std::uint16_t port =
          dice().Chance(600) ? std::uint16_t{0} : static_cast<std::uint16_t>(6000 + dice().Below(4));
      Submit(core::BindOp{link->connector, Local(port)}, [this, number](const core::Complete& bound) {
        if (!bound.status.ok()) return CloseLink(number);
        Later([this, number] { Connect(number); });
      });
    });
  });
}

void App::Connect(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending) return;
  ++link->attempts;
  if (link->dialect == 3 && !endpoint_) {
    core::CreateSharedEndpointOp create;
    create.adapter = adapter_;
    create.local = Local(static_cast<std::uint16_t>(dice().Chance(500) ? 0 : 6010 + dice().Below(3)));
    Submit(create, [this, number](const core::Complete& made) {
      if (!made.status.ok()) return CloseLink(number);
      if (endpoint_) {
        Submit(core::CloseOp{made.reply.handle, false});
      } else {
        endpoint_ = made.reply.handle;
      }
      Connect(number);
    });
    return;
  }
  core::ConnectOp connect;
  connect.connector = link->connector;
  connect.queue_pair = link->queue_pair;
  connect.remote = link->remote;
  connect.limits = {dice().Below(20), dice().Below(20)};
  connect.private_data = Bytes(dice().Below(40), 5);
  connect.private_data_length = static_cast<std::uint32_t>(connect.private_data.size());
  if (link->dialect == 2) {
    connect.source = Local(static_cast<std::uint16_t>(dice().Chance(800) ? 0 : 6020 + dice().Below(4)));
  }
  if (link->dialect == 3) connect.shared_endpoint = endpoint_;
  Submit(connect, [this, number](const core::Complete& complete) { Replied(number, complete); });
  if (dice().Chance(40)) {
    Later([this, number] {
      if (Link* const waits = Find(number)) Submit(core::CancelOp{waits->connector});
    });
  }
  if (dice().Chance(30)) Later([this, number] { CloseLink(number); });
}

void App::Replied(std::uint32_t number, const core::Complete& complete) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending) return;
  if (!complete.status.ok()) {
    if (dice().Chance(200)) Submit(core::GetPrivateDataOp{link->connector});
    const bool again = complete.status.retryable() && link->attempts < 3 && !common_.winding_down;
    if (!again) return CloseLink(number);
    if (dice().Chance(300)) link->remote = Somewhere();
    return Later([this, number] { Connect(number); });
  }
  link->local = complete.reply.address;
  link->limits = complete.reply.limits;
  if (dice().Chance(300)) Submit(core::GetReadLimitsOp{link->connector});
  if (dice().Chance(300)) Submit(core::GetLocalAddressOp{link->connector});
  if (dice().Chance(60)) return CloseLink(number);
  Later([this, number] { Complete(number); });
}

void App::Complete(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || link->ending) return;
  if (dice().Chance(80)) {
    core::RejectOp reject;
    reject.connector = link->connector;
    reject.private_data = Bytes(dice().Below(20), 3);
    reject.private_data_length = static_cast<std::uint32_t>(reject.private_data.size());
    Submit(reject, [this, number](const core::Complete&) { CloseLink(number); });
    return;
  }
  Submit(core::CompleteConnectOp{link->connector, dice().Chance(500)},
         [this, number](const core::Complete& done) {
           if (done.status.ok()) return Established(number, done);
           if (Link* const failed = Find(number); failed != nullptr && dice().Chance(300)) {
             Submit(core::CompleteConnectOp{failed->connector, false});
           }
           CloseLink(number);
         });
  if (dice().Chance(40)) {
    Later([this, number] {
      if (Link* const waits = Find(number)) Submit(core::CancelOp{waits->connector});
    });
  }
}

// Reattaches an established stream after a restart of the broker, by one operation or by two.
void App::Reattach(std::uint32_t number) {
  Link* const link = Find(number);
  if (link == nullptr || !link->lost) return;
  link->queue_pair = {};
  if (dice().Chance(500)) return Reattach(*link);
  core::CreateQueuePairOp pair;
  pair.adapter = adapter_;
  Submit(pair, [this, number](const core::Complete& qp) {
    Link* const l = Find(number);
    if (l == nullptr || !qp.status.ok()) return Forget(number);
    l->queue_pair = qp.reply.handle;
    Reattach(*l);
  });
}

void App::Reattach(Link& link) {
  core::ReattachOp again;
  again.adapter = adapter_;
  again.queue_pair = link.queue_pair;
  again.local = link.local;
  again.remote = link.remote;
  again.limits = link.limits;
  again.passive = link.passive;
  again.proof = link.proof;
  Submit(again, [this, number = link.number](const core::Complete& back) {
    Link* const l = Find(number);
    if (l == nullptr) return;
    l->lost = false;
    l->connector = back.status.ok() ? back.reply.handle : core::Handle{};
    if (back.reply.queue_pair) l->queue_pair = back.reply.queue_pair;
    if (!back.status.ok()) {
      if (l->talk) l->talk->Close(true);
      l->talk.reset();
      return CloseLink(number);
    }
    ++common_.reattached;
    common_.saw("reattached");
    if (l->talk && l->talk->ended() != Talk::End::kNone) return StreamEnded(number, l->talk->ended());
    Later([this, number] { Converse(number); });
  });
}

}  // namespace nd::sim
