// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/by_number.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <future>
#include <string>
#include <utility>

#include "verbs-lib/cm_listener.h"
#include "verbs-lib/give_way.h"
#include "verbs-lib/later.h"
#include "verbs-lib/numbers.h"
#include "verbs-lib/queue_pair.h"
#include "verbs-lib/to_itself.h"

namespace nd::verbs_lib {
namespace {

// The pauses before this side asks again a peer that has not named this side yet. They double.
constexpr std::chrono::nanoseconds kFirstPause = std::chrono::milliseconds(1),
                                   kLongestPause = std::chrono::milliseconds(500);

// For a peer that has not named this side yet.
constexpr std::chrono::nanoseconds kLeastPatience = std::chrono::seconds(5);

// The time for the peer's answer to the goodbye of a destroyed queue pair. The peer's library answers by
// itself.
constexpr auto kGoodbyePatience = std::chrono::seconds(1);

// Requests that wait to be looked at; one of them is the peer's.
constexpr std::uint32_t kBacklog = 16;

// The private data of the request: the numbers of the two queue pairs, in network order.
using Names = std::array<std::byte, 8>;

Names NamesOf(std::uint32_t from, std::uint32_t to) {
  Names names;
  for (unsigned i = 0; i < 4; ++i) {
    names[i] = static_cast<std::byte>(from >> (24 - 8 * i));
    names[4 + i] = static_cast<std::byte>(to >> (24 - 8 * i));
  }
  return names;
}

// Returns true when Connect may be called again on the same connector after this status.
bool KeepsPort(StatusCode code) {
  return code == StatusCode::kConnectionRefused || code == StatusCode::kIoTimeout ||
         code == StatusCode::kNetworkUnreachable || code == StatusCode::kHostUnreachable ||
         code == StatusCode::kAddressAlreadyExists || code == StatusCode::kInsufficientResources;
}

bool BrokerIsAway(const Status& status) {
  return status == StatusCode::kDeviceRemoved;
}

void Complain(const char* what, const Address& whom, const Status& why) {
  std::fprintf(stderr, "ndbroker: %s %s: %s\n", what, whom.ToString().c_str(), why.ToString().c_str());
}

}  // namespace

std::shared_ptr<ByNumber> ByNumber::Make(Device* device) {
  auto made = std::make_shared<ByNumber>(device);
  if (device->info.addresses.empty()) {
    made->no_port_ = Status(StatusCode::kInvalidAddress, "The adapter has no address.");
    return made;
  }
  made->no_port_ = made->TakePort(device->info.addresses.front().WithPort(0));
  return made;
}

void ByNumber::SetWaiting(bool waiting) {
  if (waiting_.exchange(waiting) != waiting) waiting ? BeginConnecting() : EndConnecting();
}

Status ByNumber::TakePort(const Address& local) {
  Connector former;
  {
    std::lock_guard lock(mutex_);
    former = connector_;
  }
  if (former.impl()) {
    const auto bound = former.GetLocalAddress();
    if (bound.ok() && *bound == local) return {};
    CloseInBackground(std::move(former));
    std::lock_guard lock(mutex_);
    connector_ = {};
  }
  auto made = device_->adapter()->CreateConnector();
  if (!made.ok()) return made.status();
  Connector connector = std::move(made).value();
  if (const Status status = BindPatiently([&] { return connector.Bind(local); }); !status.ok()) return status;
  auto bound = connector.GetLocalAddress();
  if (!bound.ok()) return bound.status();
  if (port_ == 0) port_ = bound->port();
  std::lock_guard lock(mutex_);
  connector_ = std::move(connector);
  return {};
}

Status ByNumber::StartListening(const Address& local) {
  Connector holder;
  {
    std::lock_guard lock(mutex_);
    holder = std::exchange(connector_, {});
  }
  auto made = device_->adapter()->CreateListener();
  if (!made.ok()) return made.status();
  Listener listener = std::move(made).value();
  // The broker gives a freed port out last, so that only a bind by number could take it in between.
  if (holder.impl()) static_cast<void>(holder.Close());
  Status status = BindPatiently([&] { return listener.Bind(local); });
  if (status.ok()) status = listener.Listen(kBacklog);
  if (!status.ok()) return status;
  std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
  return {};
}

int ByNumber::Expect(const std::shared_ptr<QueuePair>& queue_pair, const Peer& peer) {
  Leave();
  const bool dials = Dials(peer.local, peer.remote);
  // While the broker is away the work continues in the background.
  if (const Status status = dials ? TakePort(peer.local) : StartListening(peer.local);
      !status.ok() && !BrokerIsAway(status)) {
    Complain("no connection by number from", peer.local, status);
    return ErrnoOf(status);
  }
  // The Send of a peer waits for its receive without end: rnr_retry is 7 in nearly every program, and the
  // number of this side is about the receives of the other.
  static_cast<void>(queue_pair->pair(peer.for_sends).SetReceivePatience(std::chrono::nanoseconds::max()));
  Round round;
  {
    std::lock_guard lock(mutex_);
    round = ++round_;
    queue_pair_ = queue_pair;
    peer_ = peer;
    expiry_armed_ = false;
    pause_ = kFirstPause;
    named_ = true;
    SetWaiting(true);
  }
  dials ? Dial(round) : AwaitRequest(round);
  return 0;
}

void ByNumber::Leave(std::function<void()> then) {
  Connector connector;
  Listener listener;
  {
    std::lock_guard lock(mutex_);
    if (!named_ && !then) return;  // The port stays held.
    ++round_;
    named_ = expired_ = false;
    SetWaiting(false);
    connector = std::exchange(connector_, {});
    listener = std::exchange(listener_, {});
  }
  if (listener.impl()) CloseInBackground(std::move(listener));
  if (!connector.impl()) {
    if (then) then();
    return;
  }
  CountClosing(1);
  Begin([&](Request* request) { return connector.Close(request); },
        [then = std::move(then)](const Status&) {
          CountClosing(-1);
          if (then) then();
        });
}

nd::QueuePair ByNumber::pair() {
  std::shared_ptr<QueuePair> queue_pair;
  bool for_sends = false;
  {
    std::lock_guard lock(mutex_);
    queue_pair = queue_pair_.lock();
    for_sends = peer_.for_sends;
  }
  return queue_pair ? queue_pair->pair(for_sends) : nd::QueuePair();
}

// ---- the side that connects

void ByNumber::Dial(Round round) {
  Connector connector;
  Peer peer;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    peer = peer_;
    connector = connector_;
  }
  if (!connector.impl()) {
    if (const Status status = TakePort(peer.local); !status.ok()) return DialAgain(round, status);
    std::lock_guard lock(mutex_);
    connector = connector_;
  }
  const Names names = NamesOf(peer.own_number, peer.number);
  nd::QueuePair used = pair();
  Begin(
      [&](Request* request) {
        return connector.Connect(used, peer.remote, {peer.limits, names}, request);
      },
      [weak = weak_from_this(), round](const Status& status) {
        if (auto self = weak.lock()) self->OnReplied(round, status);
      });
}

void ByNumber::OnReplied(Round round, const Status& status) {
  if (!status.ok()) return DialAgain(round, status);
  Connector connector;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    connector = connector_;
  }
  Begin([&](Request* request) { return connector.CompleteConnect(request); },
        [weak = weak_from_this(), round](const Status& completed) {
          auto self = weak.lock();
          if (!self) return;
          completed.ok() ? self->OnEstablished(round) : self->DialAgain(round, completed);
        });
}

void ByNumber::DialAgain(Round round, const Status& why) {
  // A refusal by the peer's administrator is tried again, because that policy may change. A refusal by this
  // host's own policy is final.
  if (why == StatusCode::kAccessDenied || why == StatusCode::kInvalidAddress) return GiveUp(round, why);
  std::chrono::nanoseconds pause;
  Connector useless;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    pause = pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    if (!KeepsPort(why.code())) useless = std::exchange(connector_, {});
  }
  if (useless.impl()) CloseInBackground(std::move(useless));
  RunLater(pause, [weak = weak_from_this(), round] {
    if (auto self = weak.lock()) self->Dial(round);
  });
}

// ---- the side that listens

void ByNumber::AwaitRequest(Round round) {
  Listener listener;
  Address local;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    listener = listener_;
    local = peer_.local;
  }
  if (!listener.impl()) {
    if (const Status status = StartListening(local); !status.ok()) return AwaitBroker(round, status);
    std::lock_guard lock(mutex_);
    listener = listener_;
    if (round != round_) {
      listener_ = {};
      return;
    }
  }
  auto made = device_->adapter()->CreateConnector();
  if (!made.ok()) return AwaitBroker(round, made.status());
  Connector connector = std::move(made).value();
  Begin([&](Request* request) { return listener.GetConnectionRequest(connector, request); },
        [weak = weak_from_this(), round, connector](const Status& status) {
          if (auto self = weak.lock()) self->OnRequest(round, connector, status);
        });
}

void ByNumber::AwaitBroker(Round round, const Status& why) {
  if (!BrokerIsAway(why)) return GiveUp(round, why);
  // The library takes the listener to the next broker.
  RunLater(kLongestPause, [weak = weak_from_this(), round] {
    if (auto self = weak.lock()) self->AwaitRequest(round);
  });
}

void ByNumber::OnRequest(Round round, Connector connector, const Status& status) {
  Peer peer;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    peer = peer_;
  }
  // A listener that came back to a new broker and does not listen yet fails with an error, too.
  if (!status.ok()) return AwaitBroker(round, StatusCode::kDeviceRemoved);
  const Names expected = NamesOf(peer.number, peer.own_number);
  const auto from = connector.GetPeerAddress();
  const auto names = connector.GetPrivateData();
  if (from.ok() && *from == peer.remote && names.ok() && std::ranges::equal(*names, expected)) {
    return Accept(round, std::move(connector));
  }
  CloseInBackground(std::move(connector));
  AwaitRequest(round);
}

void ByNumber::Accept(Round round, Connector connector) {
  ReadLimits limits;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    connector_ = connector;
    limits = peer_.limits;
  }
  nd::QueuePair used = pair();
  Begin(
      [&](Request* request) {
        return connector.Accept(used, {limits, {}}, request);
      },
      [weak = weak_from_this(), round](const Status& status) {
        auto self = weak.lock();
        if (!self) return;
        if (status.ok()) return self->OnEstablished(round);
        Connector failed;
        {
          std::lock_guard lock(self->mutex_);
          if (round != self->round_) return;
          failed = std::exchange(self->connector_, {});
        }
        CloseInBackground(std::move(failed));
        self->AwaitRequest(round);
      });
}

// ---- both

void ByNumber::OnEstablished(Round round) {
  Listener listener;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    SetWaiting(false);
    listener = std::exchange(listener_, {});
  }
  // No other peer is expected. The connection keeps the port.
  if (listener.impl()) CloseInBackground(std::move(listener));
}

void ByNumber::OnPosted(std::chrono::nanoseconds retries) {
  Round round;
  {
    std::lock_guard lock(mutex_);
    if (!waiting_ || std::exchange(expiry_armed_, true)) return;
    round = round_;
  }
  RunLater(std::max(retries, kLeastPatience), [weak = weak_from_this(), round] {
    if (auto self = weak.lock()) self->Expire(round);
  });
}

void ByNumber::Expire(Round round) {
  std::shared_ptr<QueuePair> queue_pair;
  {
    std::lock_guard lock(mutex_);
    if (round != round_ || !waiting_) return;
    queue_pair = queue_pair_.lock();
  }
  if (!queue_pair) return Leave();
  queue_pair->LeavePeer();
  queue_pair->by_number->expired_ = true;
  queue_pair->Flush();
}

void ByNumber::GiveUp(Round round, const Status& why) {
  Address remote;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return;
    remote = peer_.remote;
  }
  Complain("no connection by number with", remote, why);
  Expire(round);
}

std::chrono::nanoseconds TimeOfRetries(const ibv_qp_attr& attributes) {
  // Each try lasts 4.096 us x 2^timeout. 0 means for ever, which would make a program hang that waits for the
  // end of its peer.
  if ((attributes.timeout & 31) == 0) return kLeastPatience;
  const auto each = std::chrono::nanoseconds(4096) * (std::int64_t{1} << (attributes.timeout & 31));
  return each * (attributes.retry_cnt + 1);
}

std::uint16_t LidOf(const Address& address) {
  const std::string_view ip = address.ip();
  if (ip.size() < 2) return 0;
  return static_cast<std::uint16_t>(static_cast<unsigned char>(ip[ip.size() - 2]) << 8 |
                                    static_cast<unsigned char>(ip.back()));
}

Address WithLid(const Address& neighbour, std::uint16_t lid) {
  std::string ip(neighbour.ip());
  if (ip.size() < 2) return {};
  ip[ip.size() - 2] = static_cast<char>(lid >> 8);
  ip.back() = static_cast<char>(lid & 0xff);
  return Address::FromParts(neighbour.family(), ip, 0);
}

int ExpectPeer(QueuePair* queue_pair, const ibv_qp_attr& attributes) {
  const auto& by_number = queue_pair->by_number;
  if ((attributes.dest_qp_num & kConnectedByCm) != 0) {
    if (by_number) by_number->Leave([] {});  // Connected by rdma_cm, the queue pair does not need its port.
    return 0;
  }
  if (!by_number) {
    std::fprintf(stderr,
                 "ndbroker: this program connects queue pairs by number, which devices of iWARP do not; use "
                 "--as roce, or rdma_cm (perftest: -R)\n");
    return EOPNOTSUPP;
  }
  const AdapterInfo& info = FromAbi(queue_pair->base().context)->device->info;
  const bool global = attributes.ah_attr.is_global != 0;
  const std::size_t source = global ? attributes.ah_attr.grh.sgid_index : 0;
  const std::uint16_t port = PortOfNumber(attributes.dest_qp_num);
  if (source >= info.addresses.size()) return EINVAL;
  const Address& local = info.addresses[source];
  const Address remote =
      global ? AddressOf(attributes.ah_attr.grh.dgid) : WithLid(local, attributes.ah_attr.dlid);
  if (!remote.well_formed() || remote.unspecified() || remote.family() != local.family()) {
    std::fprintf(
        stderr,
        "ndbroker: this program does not name the address (GID) of its peer as %s has one; tell it to "
        "use that (ibv_*_pingpong: -g 0, perftest: -x 0)\n",
        local.IpToString().c_str());
    return EINVAL;
  }
  if (by_number->port() == 0) {
    Complain("this queue pair cannot be connected by number with", remote.WithPort(port),
             by_number->no_port());
    return ErrnoOf(by_number->no_port());
  }
  if (port == 0) {
    std::fprintf(stderr, "ndbroker: 0x%x is not the number of a queue pair that can be connected by number\n",
                 attributes.dest_qp_num);
    return EINVAL;
  }
  ByNumber::Peer peer;
  peer.own_number = queue_pair->base().qp_num;
  peer.number = attributes.dest_qp_num;
  peer.local = local.WithPort(by_number->port());
  peer.remote = remote.WithPort(port);
  peer.limits.inbound = std::min<std::uint32_t>(attributes.max_dest_rd_atomic, info.max_inbound_read_limit);
  // The program sets its own limit with the change to RTS; the limit of the peer applies as well.
  peer.limits.outbound = std::min<std::uint32_t>(info.max_outbound_read_limit, 128);
  const auto kept = FindQueuePair(peer.own_number);
  return peer.number == peer.own_number && peer.remote == peer.local ? ExpectItself(kept, peer)
                                                                     : by_number->Expect(kept, peer);
}

void CloseQueuePair(QueuePair* queue_pair) {
  queue_pair->DropSecond();
  nd::QueuePair pair = queue_pair->pair();
  const auto& by_number = queue_pair->by_number;
  if (!by_number || !by_number->named()) {
    if (by_number) by_number->Leave([] {});
    static_cast<void>(pair.Close());
    return;
  }
  // The goodbye is sent first, because it tells the peer which of its requests have arrived. After Flush()
  // nothing of the program is used. This call waits, because a program that ends now would take the goodbye
  // with it.
  const auto said = std::make_shared<std::promise<void>>();
  CountClosing(1);
  by_number->Leave([pair, said]() mutable {
    said->set_value();
    CloseInBackground(pair);
    CountClosing(-1);
  });
  static_cast<void>(pair.Flush());
  said->get_future().wait_for(kGoodbyePatience);
}

}  // namespace nd::verbs_lib
