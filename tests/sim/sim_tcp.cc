// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_tcp.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/os/readiness.h"

namespace nd::sim {
namespace {

using provider::soft::TcpListener;
using provider::soft::TcpSocket;

constexpr std::uint32_t kUnasked = os::kFailed | os::kHungUp;
constexpr int kSpin = 200;

Status NoSocket() {
  return {StatusCode::kInsufficientResources, "no descriptor is left", Detail::kTransport, EMFILE};
}

}  // namespace

// The process's half of a socket.
class SimTcp::Watch {
 public:
  Watch(SimTcp& tcp, Key key) : tcp_(tcp), key_(key) {}
  ~Watch() {
    const Plenty plenty;
    if (!tcp_.mute()) tcp_.Close(key_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Null while calls have no effect.
  Kernel* Change() const {
    Kernel* const kernel = tcp_.mute() ? nullptr : tcp_.Find(key_);
    if (kernel != nullptr) kernel->idle = 0;
    return kernel;
  }
  const Kernel* See() const { return tcp_.Find(key_); }
  bool Fails(std::uint32_t TcpFaults::*fault) const { return tcp_.dice_.Chance(tcp_.faults.*fault); }
  Key key() const { return key_; }

  bool Begin(std::uint32_t events, Ready ready) {
    const Plenty plenty;
    Kernel* const kernel = Change();
    if (kernel == nullptr) return true;
    if (Fails(&TcpFaults::refused)) return false;
    kernel->registration = ++tcp_.last_;
    kernel->events = events;
    kernel->ready = std::make_shared<Ready>(std::move(ready));
    tcp_.Post(key_, *kernel);
    return true;
  }
  void SetEvents(std::uint32_t events) {
    const Plenty plenty;
    Kernel* const kernel = Change();
    if (kernel == nullptr) return;
    kernel->events = events;
    tcp_.Post(key_, *kernel);
  }
  void End() {
    if (Kernel* const kernel = Change()) kernel->registration = 0;
  }

 private:
  SimTcp& tcp_;
  const Key key_;
};

class SimTcp::Socket final : public TcpSocket {
 public:
  Socket(SimTcp& tcp, Key key) : tcp_(tcp), watch_(tcp, key) {}

  bool Watch(std::uint32_t events, Ready ready) override { return watch_.Begin(events, std::move(ready)); }
  void SetEvents(std::uint32_t events) override { watch_.SetEvents(events); }
  void Unwatch() override { watch_.End(); }

  int Connect(const Address& remote) override {
    const Plenty plenty;
    Kernel* const kernel = watch_.Change();
    if (kernel == nullptr) return EINPROGRESS;
    if (watch_.Fails(&TcpFaults::refused)) {
      constexpr int kErrors[] = {ENETUNREACH, EADDRNOTAVAIL, EACCES, ENOBUFS};
      return kErrors[tcp_.dice_.Below(4)];
    }
    if (kernel->local.port() == 0) {
      kernel->local.set_port(static_cast<std::uint16_t>(tcp_.dice_.Between(32768, 60999)));
    }
    kernel->peer = remote;
    kernel->end = tcp_.net_.Connect(kernel->local, remote, Owner::kBroker, tcp_.host_,
                                    [&tcp = tcp_, key = watch_.key()](int error) {
                                      tcp.Find(key)->connected = error;
                                      tcp.Changed(key);
                                    });
    tcp_.net_.Watch(kernel->end, [&tcp = tcp_, key = watch_.key()] { tcp.Changed(key); });
    return EINPROGRESS;
  }
  int TakeError() override {
    const Kernel* const kernel = watch_.See();
    return kernel == nullptr || !kernel->connected ? 0 : *kernel->connected;
  }
  Address Local() const override {
    const Kernel* const kernel = watch_.See();
    return kernel == nullptr ? Address() : kernel->local;
  }
  Address Peer() const override {
    const Kernel* const kernel = watch_.See();
    return kernel == nullptr || kernel->connected != 0 ? Address() : kernel->peer;
  }

  Peeked Peek(std::span<std::byte> into) override {
    const Kernel* const kernel = watch_.See();
    if (kernel == nullptr) return {0, EAGAIN};
    const std::span<const std::uint8_t> unread = tcp_.net_.Peek(kernel->end);
    if (unread.empty()) {
      if (const int error = tcp_.net_.Error(kernel->end); error != 0) return {0, error};
      return {0, tcp_.net_.AtEnd(kernel->end) ? 0 : EAGAIN};
    }
    std::size_t size = std::min(unread.size(), into.size());
    // The rest, and the FIN with it, arrives after this call and unknown to the caller.
    if (!tcp_.mute() && !kernel->told_closed && watch_.Fails(&TcpFaults::partial)) {
      size = 1 + tcp_.dice_.Below(static_cast<std::uint32_t>(size));
    }
    if (!tcp_.mute()) tcp_.Find(watch_.key())->unseen = std::min(unread.size(), into.size()) - size;
    std::ranges::copy(std::as_bytes(unread.first(size)), into.begin());
    return {size, 0};
  }
  int Consume(std::size_t count) override {
    if (const Kernel* const kernel = watch_.Change()) tcp_.net_.Consume(kernel->end, count);
    return 0;
  }
  int Send(std::span<const std::uint8_t> bytes) override {
    const Plenty plenty;
    const Kernel* const kernel = watch_.Change();
    if (kernel == nullptr) return 0;
    if (watch_.Fails(&TcpFaults::unsendable)) return ENOBUFS;
    if (tcp_.net_.Send(kernel->end, bytes)) return 0;
    const int error = tcp_.net_.Error(kernel->end);
    return error != 0 ? error : EPIPE;
  }
  bool PeerClosed() const override {
    const Kernel* const kernel = watch_.See();
    const bool closed = kernel != nullptr && tcp_.net_.PeerFinished(kernel->end);
    // A query must not change the run.
    if (closed && !tcp_.mute()) tcp_.Find(watch_.key())->told_closed = true;
    return closed;
  }
  bool NothingUnsent() const override {
    const Kernel* const kernel = watch_.See();
    return kernel == nullptr || tcp_.net_.AllArrived(kernel->end);
  }

  void SetLowWater(std::size_t bytes) override {
    const Plenty plenty;
    // Has no effect while the host is mute.
    Kernel* const kernel = tcp_.mute() ? nullptr : tcp_.Find(watch_.key());
    if (kernel == nullptr) return;
    kernel->low_water = bytes;
    tcp_.Post(watch_.key(), *kernel);
  }
  void SetHandshakeOptions(Duration) override {}
  void SetHandOverOptions() override { ResetOnClose(true); }
  void ResetOnClose(bool reset) override {
    if (Kernel* const kernel = watch_.Change()) kernel->reset_on_close = reset;
  }

  UniqueFd Release() override {
    const Plenty plenty;
    const Kernel* const kernel = watch_.Change();
    if (kernel == nullptr) return {};
    tcp_.released_ = kernel->end;
    tcp_.net_.Watch(kernel->end, nullptr);
    tcp_.kernels_.erase(watch_.key());
    return {};
  }

 private:
  SimTcp& tcp_;
  SimTcp::Watch watch_;
};

class SimTcp::Listener final : public TcpListener {
 public:
  Listener(SimTcp& tcp, Key key) : tcp_(tcp), watch_(tcp, key) {}

  Key key() const { return watch_.key(); }
  bool Watch(std::uint32_t events, Ready ready) override { return watch_.Begin(events, std::move(ready)); }
  void SetEvents(std::uint32_t events) override { watch_.SetEvents(events); }
  void Unwatch() override { watch_.End(); }

  bool StartListening() override {
    const Plenty plenty;
    Kernel* const kernel = watch_.Change();
    if (kernel == nullptr || kernel->listening) return true;
    kernel->listening = tcp_.net_.Listen(
        kernel->local,
        [&tcp = tcp_, key = watch_.key()](EndId end, const Address& local, const Address& peer) {
          tcp.net_.SetOwner(end, Owner::kBroker, tcp.host_);
          tcp.Find(key)->queue.push_back({end, local, peer});
          tcp.Changed(key);
        });
    return kernel->listening;
  }
  void StopListening() override {
    const Plenty plenty;
    Kernel* const kernel = watch_.Change();
    if (kernel == nullptr || !std::exchange(kernel->listening, false)) return;
    tcp_.net_.Unlisten(kernel->local);
    for (const Waiting& waiting : std::exchange(kernel->queue, {})) tcp_.net_.Close(waiting.end, true);
  }

  Accepted Accept() override {
    using Result = os::Accepted::Result;
    const Plenty plenty;
    Kernel* const kernel = watch_.Change();
    if (kernel == nullptr || kernel->queue.empty()) return {};
    if (watch_.Fails(&TcpFaults::exhausted)) return {Result::kExhausted, nullptr, EMFILE};
    if (watch_.Fails(&TcpFaults::refused)) return {Result::kFailed, nullptr, EPERM};
    const Waiting waiting = kernel->queue.front();
    kernel->queue.pop_front();
    Kernel connection(waiting.local);
    connection.end = waiting.end;
    connection.peer = waiting.peer;
    connection.connected = 0;
    const Key key = tcp_.Make(std::move(connection));
    tcp_.net_.Watch(waiting.end, [&tcp = tcp_, key] { tcp.Changed(key); });
    return {Result::kConnection, std::make_unique<Socket>(tcp_, key), 0};
  }
  void RefuseOldest() override {
    const Plenty plenty;
    Kernel* const kernel = watch_.Change();
    if (kernel == nullptr || kernel->queue.empty()) return;
    tcp_.net_.Close(kernel->queue.front().end, true);
    kernel->queue.pop_front();
  }

 private:
  SimTcp& tcp_;
  SimTcp::Watch watch_;
};

SimTcp::Kernel* SimTcp::Find(Key key) {
  const auto found = kernels_.find(key);
  return found == kernels_.end() ? nullptr : &found->second;
}

SimTcp::Key SimTcp::Make(Kernel kernel) {
  kernels_.emplace(++last_, std::move(kernel));
  return last_;
}

std::uint32_t SimTcp::ReadinessOf(const Kernel& kernel) const {
  if (!kernel.queue.empty()) return os::kReadable;
  if (!kernel.connected) return 0;
  if (*kernel.connected != 0) return os::kReadable | os::kWritable | kUnasked;
  std::uint32_t ready = os::kWritable;
  if (net_.Peek(kernel.end).size() >= kernel.low_water) ready |= os::kReadable;
  if (net_.PeerFinished(kernel.end)) ready |= os::kReadable | os::kPeerFinished;
  if (net_.Error(kernel.end) != 0) ready |= kUnasked;
  return ready;
}

void SimTcp::Changed(Key key) {
  Kernel* const kernel = mute() ? nullptr : Find(key);
  if (kernel == nullptr) return;
  kernel->idle = 0;
  Post(key, *kernel);
}

void SimTcp::Post(Key key, Kernel& kernel) {
  if (kernel.posted || kernel.registration == 0) return;
  if ((ReadinessOf(kernel) & (kernel.events | kUnasked)) == 0) return;
  kernel.posted = true;
  const Duration delay = dice_.Chance(faults.late) ? dice_.Micros(1, 4000) : dice_.Micros(1, 5);
  schedule_.After(delay, [this, key, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired() || mute()) return;
    Kernel* const now = Find(key);
    if (now == nullptr) return;
    now->posted = false;
    const std::uint32_t events = ReadinessOf(*now) & (now->events | kUnasked);
    if (events == 0 || now->registration == 0) return;
    if (++now->idle > kSpin && spins_.empty()) {
      spins_ = "the socket " + now->local.ToString() + " of host " + std::to_string(host_) +
               " stays ready for events " + std::to_string(events) + ", and nothing changes";
    }
    if (dice_.Chance(faults.stale)) {
      schedule_.After(dice_.Micros(0, 5000),
                      [this, key, registration = now->registration, bits = dice_.Below(32), alive] {
                        if (!alive.expired()) Call(key, registration, bits);
                      });
    }
    Call(key, now->registration, events);
    if (Kernel* const after = mute() ? nullptr : Find(key)) Post(key, *after);
  });
}

void SimTcp::Call(Key key, std::uint64_t registration, std::uint32_t events) {
  const Kernel* const kernel = mute() ? nullptr : Find(key);
  if (kernel == nullptr || kernel->registration != registration) return;
  const std::shared_ptr<Ready> ready = kernel->ready;
  memory_.Survives([&] { (*ready)(events); });
}

void SimTcp::Close(Key key) {
  const auto found = kernels_.find(key);
  if (found == kernels_.end()) return;
  const Kernel kernel = std::move(found->second);
  kernels_.erase(found);
  if (kernel.told_closed && kernel.unseen != 0 && !mute() && overlooked_.empty()) {
    overlooked_ = "the socket " + kernel.local.ToString() + " of host " + std::to_string(host_) +
                  " was closed because its peer had finished, and " + std::to_string(kernel.unseen) +
                  " bytes of the peer that had arrived were not looked at";
  }
  if (const auto bound = bound_.find(kernel.local); bound != bound_.end() && bound->second == key) {
    bound_.erase(bound);
  }
  if (kernel.listening) net_.Unlisten(kernel.local);
  for (const Waiting& waiting : kernel.queue) net_.Close(waiting.end, true);
  if (kernel.end != 0) net_.Close(kernel.end, kernel.reset_on_close);
}

void SimTcp::Die() {
  if (std::exchange(dead_, true)) return;
  while (!kernels_.empty()) Close(kernels_.begin()->first);
  for (const auto& [id, timer] : timers_) schedule_.Cancel(timer);
  timers_.clear();
}

EndId SimTcp::TakeReleased() {
  return std::exchange(released_, 0);
}

std::size_t SimTcp::queued() const {
  std::size_t all = 0;
  for (const auto& [key, kernel] : kernels_) all += kernel.queue.size();
  return all;
}

EventLoop::TimerId SimTcp::At(Time when, EventLoop::Callback callback) {
  const Plenty plenty;
  if (mute()) return {};
  const std::uint64_t id = ++last_;
  timers_[id] = schedule_.At(when, [this, id, callback = std::move(callback)] {
    timers_.erase(id);
    if (!mute()) memory_.Survives(callback);
  });
  return EventLoop::TimerId{id};
}

void SimTcp::Cancel(EventLoop::TimerId timer) {
  const auto found = timers_.find(static_cast<std::uint64_t>(timer));
  if (mute() || found == timers_.end()) return;
  schedule_.Cancel(found->second);
  timers_.erase(found);
}

Status SimTcp::Grant(const Address& address) {
  // Ports of other programs.
  if (address.port() == 6001 || (address.port() >= 50000 && address.port() < 50012)) {
    return {StatusCode::kSharingViolation, "in use by another program", Detail::kTransport};
  }
  if (!dice_.Chance(faults.refused)) return {};
  constexpr StatusCode kCodes[] = {StatusCode::kSharingViolation, StatusCode::kSharingViolation,
                                   StatusCode::kAccessDenied, StatusCode::kInsufficientResources,
                                   StatusCode::kInvalidAddress};
  return {kCodes[dice_.Below(5)], "the host says no", Detail::kTransport};
}

Result<std::unique_ptr<TcpSocket>> SimTcp::SocketFrom(const Address& local) {
  const Plenty plenty;
  if (mute()) return std::unique_ptr<TcpSocket>(std::make_unique<Socket>(*this, 0));
  if (dice_.Chance(faults.refused)) return NoSocket();
  return std::unique_ptr<TcpSocket>(std::make_unique<Socket>(*this, Make(Kernel(local.WithPort(0)))));
}

Result<std::unique_ptr<TcpSocket>> SimTcp::SocketBeside(TcpListener* held, const Address& local) {
  const Plenty plenty;
  if (mute()) return std::unique_ptr<TcpSocket>(std::make_unique<Socket>(*this, 0));
  const Kernel* const beside = held == nullptr ? nullptr : Find(static_cast<Listener*>(held)->key());
  // A port that listens, or that something else holds, is not shared.
  if (beside != nullptr ? beside->listening : bound_.contains(local)) {
    return Status(StatusCode::kSharingViolation, "the port is in use", Detail::kTransport, EADDRINUSE);
  }
  if (dice_.Chance(faults.refused)) return NoSocket();
  return std::unique_ptr<TcpSocket>(std::make_unique<Socket>(*this, Make(Kernel(local))));
}

Result<std::unique_ptr<TcpListener>> SimTcp::Hold(const Address& address) {
  const Plenty plenty;
  if (mute()) return std::unique_ptr<TcpListener>(std::make_unique<Listener>(*this, 0));
  if (Status status = Grant(address); !status.ok()) return status;
  if (bound_.contains(address)) {
    return Status(StatusCode::kSharingViolation, "held twice", Detail::kTransport, EADDRINUSE);
  }
  bound_[address] = Make(Kernel(address));
  return std::unique_ptr<TcpListener>(std::make_unique<Listener>(*this, bound_[address]));
}

Result<std::unique_ptr<TcpListener>> SimTcp::Listen(const Address& address) {
  const Plenty plenty;
  if (bound_.contains(address)) {
    return Status(StatusCode::kSharingViolation, "held twice", Detail::kTransport, EADDRINUSE);
  }
  bound_[address] = Make(Kernel(address));
  auto listener = std::make_unique<Listener>(*this, bound_[address]);
  listener->StartListening();
  return std::unique_ptr<TcpListener>(std::move(listener));
}

}  // namespace nd::sim
