// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/qp/connections_win.h"

#include <algorithm>
#include <utility>

namespace nd::provider::networkdirect {
namespace {

using spi::IND2Connector, spi::IND2Listener, spi::kIid;

struct SocketAddress {
  explicit SocketAddress(const Address& address) : length(static_cast<ULONG>(address.ToSockaddr(bytes))) {}
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(bytes); }
  alignas(8) std::byte bytes[64] = {};
  ULONG length;
};

template <typename Getter>
Address AddressFrom(Getter getter) {
  alignas(8) std::byte bytes[64] = {};
  ULONG length = sizeof bytes;
  if (FAILED(getter(reinterpret_cast<sockaddr*>(bytes), &length))) return {};
  return Address::FromSockaddr(reinterpret_cast<const sockaddr*>(bytes), length);
}

std::vector<std::uint8_t> PrivateDataOf(IND2Connector& connector) {
  std::vector<std::uint8_t> data(kMaxData);
  auto length = static_cast<ULONG>(data.size());
  if (CodeOf(connector.GetPrivateData(data.data(), &length)) != StatusCode::kSuccess) length = 0;
  data.resize(std::min<std::size_t>(length, data.size()));
  return data;
}

ReadLimits LimitsOf(IND2Connector& connector) {
  ULONG inbound = 0, outbound = 0;
  if (CodeOf(connector.GetReadLimits(&inbound, &outbound)) != StatusCode::kSuccess) return {};
  return {static_cast<std::uint32_t>(inbound), static_cast<std::uint32_t>(outbound)};
}

// A provider reads no data behind a null pointer.
const void* DataOf(const Message& order) {
  return order.data.empty() ? nullptr : order.data.data();
}
ULONG LengthOf(const Message& order) {
  return static_cast<ULONG>(order.data.size());
}

Message ReportOf(Kind kind, std::uint64_t number) {
  Message message;
  message.kind = kind;
  message.number = number;
  return message;
}

Com<spi::IND2Overlapped> Calls(const Com<IND2Connector>& connector) {
  return Com<spi::IND2Overlapped>::To(connector.get());
}

// A disconnect: the answer of the adapter, or the time-out, whichever comes first.
struct Goodbye {
  void End(const Status& status) {
    connector.reset();
    if (const auto once = std::exchange(done, nullptr)) once(status);
  }
  Com<IND2Connector> connector;
  std::function<void(Status)> done;
};

}  // namespace

void Connections::SetDaemon(std::shared_ptr<DaemonHalf> daemon) {
  std::lock_guard lock(mutex_);
  daemon_ = std::move(daemon);
}

void Connections::Report(const Message& message) {
  std::shared_ptr<DaemonHalf> daemon;
  {
    std::lock_guard lock(mutex_);
    daemon = daemon_;
  }
  // Without a broker the report is void: the next one knows nothing of the attempt.
  if (daemon) static_cast<void>(daemon->Send(Encode(message)));
}

void Connections::OnMessage(const Message& message) {
  switch (message.kind) {
    case Kind::kReserve:
      return Reserve(message);
    case Kind::kRelease:
      return static_cast<void>(endpoints_.erase(message.endpoint));
    case Kind::kListen:
      return Listen(message.endpoint);
    case Kind::kUnlisten:
      return Unlisten(message.endpoint);
    case Kind::kConnect:
      return Connect(message);
    case Kind::kAccept:
      return Accept(message);
    case Kind::kReject:
      return Reject(message);
    case Kind::kConfirm:
      return Confirm(message.number);
    case Kind::kAbort:
      return Abort(message.number);
    default:
      return;
  }
}

void Connections::Forget() {
  for (auto& [number, endpoint] : endpoints_) {
    if (endpoint.listener) endpoint.listener->CancelOverlappedRequests();
  }
  endpoints_.clear();
  for (auto& [number, attempt] : attempts_) attempt.connector->CancelOverlappedRequests();
  attempts_.clear();
  std::map<std::uint64_t, Link> dropped;
  std::lock_guard lock(mutex_);
  for (auto link = links_.begin(); link != links_.end();) {
    const auto next = std::next(link);
    if (!link->second.attached) dropped.insert(links_.extract(link));
    link = next;
  }
}

void Connections::Close() {
  Forget();
  std::map<std::uint64_t, Link> links;
  std::map<std::uint32_t, Com<spi::IND2QueuePair>> queue_pairs;
  {
    std::lock_guard lock(mutex_);
    links.swap(links_);
    queue_pairs.swap(queue_pairs_);
    daemon_.reset();
  }
  for (auto& [number, link] : links) link.connector->CancelOverlappedRequests();
}

std::uint32_t Connections::Add(Com<spi::IND2QueuePair> queue_pair) {
  std::lock_guard lock(mutex_);
  queue_pairs_.emplace(++last_queue_pair_, std::move(queue_pair));
  return last_queue_pair_;
}

void Connections::Remove(std::uint32_t queue_pair) {
  Disconnect(queue_pair, Duration::zero(), nullptr);
  Com<spi::IND2QueuePair> removed;
  std::lock_guard lock(mutex_);
  const auto found = queue_pairs_.find(queue_pair);
  if (found == queue_pairs_.end()) return;
  removed = std::move(found->second);
  queue_pairs_.erase(found);
}

Com<spi::IND2QueuePair> Connections::QueuePairOf(std::uint32_t number) {
  std::lock_guard lock(mutex_);
  const auto found = queue_pairs_.find(number);
  return found == queue_pairs_.end() ? Com<spi::IND2QueuePair>() : found->second;
}

bool Connections::HasLinkAt(const Address& local) {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(links_, [&local](const auto& entry) { return entry.second.local == local; });
}

Result<Com<IND2Connector>> Connections::NewConnector() {
  Com<IND2Connector> connector;
  const HRESULT hr = adapter_->CreateConnector(kIid<IND2Connector>, file_, connector.out());
  if (Status status = StatusOf(hr, "CreateConnector"); !status.ok()) return status;
  return connector;
}

HRESULT Connections::Bind(Endpoint* endpoint) {
  const SocketAddress local(endpoint->local);
  if (endpoint->listens) {
    Com<IND2Listener> listener;
    HRESULT hr = adapter_->CreateListener(kIid<IND2Listener>, file_, listener.out());
    if (CodeOf(hr) == StatusCode::kSuccess) hr = listener->Bind(local.get(), local.length);
    if (CodeOf(hr) == StatusCode::kSuccess) endpoint->listener = std::move(listener);
    return hr;
  }
  auto connector = NewConnector();
  if (!connector.ok()) return static_cast<HRESULT>(connector.code());
  const HRESULT hr = (*connector)->Bind(local.get(), local.length);
  if (CodeOf(hr) == StatusCode::kSuccess) endpoint->connector = *std::move(connector);
  return hr;
}

void Connections::Reserve(const Message& order) {
  Endpoint endpoint;
  endpoint.local = order.local;
  endpoint.listens = order.listens;
  Message answer = ReportOf(Kind::kReserved, 0);
  answer.endpoint = order.endpoint;
  // A connection that comes back after a restart of the broker has its port.
  if (endpoint.listens || !HasLinkAt(endpoint.local)) answer.status = StatusOf(Bind(&endpoint), "Bind");
  if (answer.status.ok()) endpoints_[order.endpoint] = std::move(endpoint);
  Report(answer);
}

void Connections::Listen(std::uint64_t number) {
  const auto found = endpoints_.find(number);
  if (found == endpoints_.end() || !found->second.listens || found->second.listening) return;
  Endpoint& endpoint = found->second;
  endpoint.listen_status = endpoint.listener ? Status() : StatusOf(Bind(&endpoint), "Bind");
  if (endpoint.listen_status.ok()) endpoint.listen_status = StatusOf(endpoint.listener->Listen(0), "Listen");
  endpoint.listening = endpoint.listen_status.ok();
  if (endpoint.listening) AwaitRequest(number);
}

Status Connections::ListenStatusOf(const Address& local) const {
  for (const auto& [number, endpoint] : endpoints_) {
    const bool at = endpoint.listens && endpoint.local.port() == local.port() &&
                    (local.unspecified() || endpoint.local.same_ip(local));
    if (at) return endpoint.listen_status;
  }
  return {StatusCode::kDeviceRemoved, "the listener was closed, or the broker went away",
          Detail::kBrokerUnreachable};
}

// A listener of Network Direct cannot stop listening, so its port is free for a moment.
void Connections::Unlisten(std::uint64_t number) {
  const auto found = endpoints_.find(number);
  if (found == endpoints_.end() || !found->second.listener) return;
  Endpoint& endpoint = found->second;
  endpoint.listener->CancelOverlappedRequests();
  endpoint.listener.reset();
  endpoint.listening = false;
  static_cast<void>(Bind(&endpoint));
}

void Connections::AwaitRequest(std::uint64_t number) {
  const auto found = endpoints_.find(number);
  if (found == endpoints_.end() || !found->second.listening) return;
  const Com<IND2Listener> listener = found->second.listener;
  auto connector = NewConnector();
  if (!connector.ok()) {
    constexpr std::chrono::milliseconds kSoon{100};
    return engine_->PostAt(std::chrono::steady_clock::now() + kSoon,
                           [self = shared_from_this(), number] { self->AwaitRequest(number); });
  }
  engine_->Call(
      Com<spi::IND2Overlapped>::To(listener.get()),
      [&](OVERLAPPED* overlapped) { return listener->GetConnectionRequest(connector->get(), overlapped); },
      [self = shared_from_this(), number, listener = listener.get(), made = *connector](HRESULT hr) {
        const auto still = self->endpoints_.find(number);
        if (still == self->endpoints_.end() || still->second.listener.get() != listener) return;
        const StatusCode code = CodeOf(hr);
        if (code == StatusCode::kSuccess) self->Arrived(number, made);
        // A request that its sender withdrew says nothing about the next one.
        if (code == StatusCode::kSuccess || code == StatusCode::kConnectionAborted)
          self->AwaitRequest(number);
      });
}

void Connections::Arrived(std::uint64_t endpoint, const Com<IND2Connector>& connector) {
  const std::uint64_t number = kArrivedBit | ++last_arrived_;
  attempts_[number] = {connector, 0, endpoint};
  Message report = ReportOf(Kind::kArrived, number);
  report.endpoint = endpoint;
  report.local =
      AddressFrom([&](sockaddr* a, ULONG* length) { return connector->GetLocalAddress(a, length); });
  report.remote =
      AddressFrom([&](sockaddr* a, ULONG* length) { return connector->GetPeerAddress(a, length); });
  report.limits = LimitsOf(*connector.get());
  report.data = PrivateDataOf(*connector.get());
  Report(report);
}

void Connections::Lose(Kind kind, std::uint64_t number, HRESULT hr, const char* call) {
  Message report = ReportOf(kind, number);
  report.status = StatusOf(hr, call);
  const auto attempt = attempts_.find(number);
  if (attempt != attempts_.end()) {
    if (kind != Kind::kFailed) report.data = PrivateDataOf(*attempt->second.connector.get());
    attempts_.erase(attempt);
  }
  // Network Direct carries no reason; private data comes from Reject() of the peer alone.
  if (!report.data.empty()) {
    report.status = Status(report.status.code(), "the peer rejected the connection", Detail::kPeerRejected);
  }
  Report(report);
}

void Connections::Connect(const Message& order) {
  const auto fail = [&](StatusCode code, const char* what) {
    Message report = ReportOf(Kind::kFailed, order.number);
    report.status = Status(code, what);
    Report(report);
  };
  const Com<spi::IND2QueuePair> queue_pair = QueuePairOf(order.queue_pair);
  if (!queue_pair) return fail(StatusCode::kConnectionAborted, "the queue pair was closed");
  const auto endpoint = endpoints_.find(order.endpoint);
  if (endpoint == endpoints_.end()) return fail(StatusCode::kInsufficientResources, "the port is not held");
  // An attempt that failed took the connector with it. A second one of a shared endpoint finds the port
  // taken.
  if (!endpoint->second.connector) {
    const HRESULT hr = Bind(&endpoint->second);
    if (CodeOf(hr) != StatusCode::kSuccess) return Lose(Kind::kFailed, order.number, hr, "Bind");
  }
  Com<IND2Connector> connector = std::move(endpoint->second.connector);
  attempts_[order.number] = {connector, order.queue_pair, 0};
  const SocketAddress remote(order.remote);
  engine_->Call(
      Calls(connector),
      [&](OVERLAPPED* overlapped) {
        return connector->Connect(queue_pair.get(), remote.get(), remote.length, order.limits.inbound,
                                  order.limits.outbound, DataOf(order), LengthOf(order), overlapped);
      },
      [self = shared_from_this(), number = order.number](HRESULT hr) { self->Connected(number, hr); });
}

void Connections::Connected(std::uint64_t number, HRESULT hr) {
  const auto attempt = attempts_.find(number);
  if (attempt == attempts_.end()) return;
  const StatusCode code = CodeOf(hr);
  if (code == StatusCode::kConnectionRefused) return Lose(Kind::kRefused, number, hr, "Connect");
  if (code != StatusCode::kSuccess) return Lose(Kind::kFailed, number, hr, "Connect");
  Message report = ReportOf(Kind::kReplied, number);
  report.limits = LimitsOf(*attempt->second.connector.get());
  report.data = PrivateDataOf(*attempt->second.connector.get());
  Report(report);
}

void Connections::Confirm(std::uint64_t number) {
  const auto attempt = attempts_.find(number);
  if (attempt == attempts_.end()) return;
  const Com<IND2Connector> connector = attempt->second.connector;
  engine_->Call(
      Calls(connector), [&](OVERLAPPED* overlapped) { return connector->CompleteConnect(overlapped); },
      [self = shared_from_this(), number](HRESULT hr) { self->Established(number, hr); });
}

void Connections::Accept(const Message& order) {
  const auto attempt = attempts_.find(order.number);
  if (attempt == attempts_.end()) return;
  const Com<spi::IND2QueuePair> queue_pair = QueuePairOf(order.queue_pair);
  if (!queue_pair) {
    return Lose(Kind::kLost, order.number, static_cast<HRESULT>(StatusCode::kConnectionAborted), "Accept");
  }
  attempt->second.queue_pair = order.queue_pair;
  const Com<IND2Connector> connector = attempt->second.connector;
  engine_->Call(
      Calls(connector),
      [&](OVERLAPPED* overlapped) {
        return connector->Accept(queue_pair.get(), order.limits.inbound, order.limits.outbound, DataOf(order),
                                 LengthOf(order), overlapped);
      },
      [self = shared_from_this(), number = order.number](HRESULT hr) { self->Established(number, hr); });
}

void Connections::Established(std::uint64_t number, HRESULT hr) {
  const auto attempt = attempts_.find(number);
  if (attempt == attempts_.end()) return;
  if (CodeOf(hr) != StatusCode::kSuccess) return Lose(Kind::kLost, number, hr, "Accept or CompleteConnect");
  const Com<IND2Connector> connector = attempt->second.connector;
  Link link;
  link.connector = connector;
  link.queue_pair = attempt->second.queue_pair;
  link.local = AddressFrom([&](sockaddr* a, ULONG* length) { return connector->GetLocalAddress(a, length); });
  attempts_.erase(attempt);
  {
    std::lock_guard lock(mutex_);
    links_[number] = std::move(link);
  }
  engine_->Call(
      Calls(connector), [&](OVERLAPPED* overlapped) { return connector->NotifyDisconnect(overlapped); },
      [self = shared_from_this(), number](HRESULT) { self->PeerGone(number); });
  Report(ReportOf(Kind::kEstablished, number));
}

// Also called when this side disconnects; the link has gone then.
void Connections::PeerGone(std::uint64_t number) {
  std::shared_ptr<ConnectionUser> user;
  {
    std::lock_guard lock(mutex_);
    const auto link = links_.find(number);
    if (link == links_.end()) return;
    link->second.peer_gone = true;
    user = link->second.user.lock();
  }
  if (user) user->OnPeerGone();
}

Status Connections::Attach(std::uint64_t connection, std::uint32_t queue_pair,
                           std::weak_ptr<ConnectionUser> user) {
  std::lock_guard lock(mutex_);
  const auto link = links_.find(connection);
  if (link == links_.end() || link->second.queue_pair != queue_pair || link->second.attached) {
    return {StatusCode::kConnectionInvalid, "this process has no such connection for the queue pair"};
  }
  link->second.attached = true;
  link->second.user = user;
  if (link->second.peer_gone) {
    engine_->Post([user = std::move(user)] {
      if (const auto alive = user.lock()) alive->OnPeerGone();
    });
  }
  return {};
}

void Connections::Disconnect(std::uint32_t queue_pair, Duration timeout, std::function<void(Status)> done) {
  Com<IND2Connector> connector;
  {
    std::lock_guard lock(mutex_);
    const auto of_this = [queue_pair](const auto& entry) { return entry.second.queue_pair == queue_pair; };
    const auto link = std::ranges::find_if(links_, of_this);
    if (link != links_.end()) {
      connector = std::move(link->second.connector);
      links_.erase(link);
    }
  }
  if (!connector) {
    if (done) engine_->Post([done = std::move(done)] { done({}); });
    return;
  }
  const auto goodbye = std::make_shared<Goodbye>(Goodbye{std::move(connector), std::move(done)});
  engine_->Post([engine = engine_, goodbye] {
    const Com<IND2Connector> ended = goodbye->connector;
    if (!ended) return;
    engine->Call(
        Calls(ended), [&](OVERLAPPED* overlapped) { return ended->Disconnect(overlapped); },
        // A connection that the peer has ended is over as well.
        [goodbye](HRESULT) { goodbye->End({}); });
  });
  const Time now = std::chrono::steady_clock::now();
  if (timeout == Duration::zero() || timeout > Time::max() - now) return;
  engine_->PostAt(now + timeout, [goodbye] {
    if (goodbye->connector) goodbye->connector->CancelOverlappedRequests();
    goodbye->End({StatusCode::kIoTimeout, "the adapter did not finish the disconnect in time"});
  });
}

void Connections::Reject(const Message& order) {
  const auto attempt = attempts_.find(order.number);
  if (attempt == attempts_.end()) return;
  static_cast<void>(attempt->second.connector->Reject(DataOf(order), LengthOf(order)));
  attempts_.erase(attempt);
}

void Connections::Abort(std::uint64_t number) {
  if (const auto attempt = attempts_.find(number); attempt != attempts_.end()) {
    const Com<IND2Connector> connector = std::move(attempt->second.connector);
    attempts_.erase(attempt);
    connector->CancelOverlappedRequests();
  }
  Link link;  // Established, and the broker gave it to nobody.
  std::lock_guard lock(mutex_);
  const auto found = links_.find(number);
  if (found == links_.end() || found->second.attached) return;
  link = std::move(found->second);
  links_.erase(found);
}

}  // namespace nd::provider::networkdirect
