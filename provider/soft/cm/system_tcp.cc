// SPDX-License-Identifier: Apache-2.0
// One class for each kind of socket. Bytes are only peeked at until a state machine has consumed them,
// because the bytes behind the handshake must stay in the socket for the client.
#include "provider/soft/cm/system_tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/os/readiness.h"
#include "base/os/socket.h"
#include "provider/soft/cm/tcp_socket.h"

namespace nd::provider::soft {
namespace {

// The pause between two looks at a socket of a system without a low-water mark.
constexpr Duration kLook = std::chrono::milliseconds(5);

// The descriptor of a watched object, and its registration in the loop.
class Registered {
 public:
  Registered(EventLoop& loop, UniqueFd fd) : loop_(loop), fd_(std::move(fd)) {}
  ~Registered() { Remove(); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  int fd() const { return fd_.get(); }
  UniqueFd& descriptor() { return fd_; }  // Not while it is watched.
  void SetAccount(Account account) { account_ = account; }
  bool Add(std::uint32_t events, Watched::Ready ready) {
    Remove();
    return added_ = loop_.Add(fd_.get(), events, std::move(ready), account_);
  }
  void Modify(std::uint32_t events) {
    if (added_) loop_.Modify(fd_.get(), events);
  }
  void Remove() {
    if (std::exchange(added_, false)) loop_.Remove(fd_.get());
  }
  UniqueFd Release() {
    Remove();
    return std::move(fd_);
  }

 private:
  EventLoop& loop_;
  UniqueFd fd_;
  Account account_ = Account::kPeers;
  bool added_ = false;
};

}  // namespace

class SystemTcp::Socket : public TcpSocket {
 public:
  Socket(EventLoop& loop, UniqueFd fd) : loop_(loop), fd_(loop, std::move(fd)) {}
  ~Socket() override { StopLooking(); }

  void SetAccount(Account account) override { fd_.SetAccount(account); }
  bool Watch(std::uint32_t events, Ready ready) override {
    StopLooking();
    events_ = events;
    if (!kHasLowWater) ready_ = ready;
    return fd_.Add(events, std::move(ready));
  }
  void SetEvents(std::uint32_t events) override {
    events_ = events;
    fd_.Modify(looking_ ? events & ~os::kReadable : events);
  }
  void Unwatch() override {
    StopLooking();
    fd_.Remove();
  }

  int Connect(const Address& remote) override { return soft::Connect(fd_.fd(), remote); }
  int TakeError() override { return soft::TakeError(fd_.fd()); }
  Address Local() const override { return LocalAddressOf(fd_.fd()); }
  Address Peer() const override { return PeerAddressOf(fd_.fd()); }

  Peeked Peek(std::span<std::byte> into) override {
    const std::ptrdiff_t got = soft::Peek(fd_.fd(), into);
    if (got >= 0) return {static_cast<std::size_t>(got), 0};
    return {0, errno == EINTR ? EAGAIN : errno};
  }
  int Consume(std::size_t count) override {
    std::array<std::byte, kHandshakePeek> scrap;
    while (count != 0) {
      const std::ptrdiff_t got = os::Receive(fd_.fd(), scrap.data(), std::min(count, scrap.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return ECONNRESET;
      count -= static_cast<std::size_t>(got);
    }
    return 0;
  }
  int Send(std::span<const std::uint8_t> bytes) override {
    const std::ptrdiff_t sent = os::Send(fd_.fd(), bytes.data(), bytes.size());
    if (sent < 0) return errno;
    return static_cast<std::size_t>(sent) == bytes.size() ? 0 : ENOBUFS;
  }
  bool PeerClosed() const override { return soft::PeerClosed(fd_.fd()); }
  bool NothingUnsent() const override { return soft::NothingUnsent(fd_.fd()); }

  void SetLowWater(std::size_t bytes) override {
    if (kHasLowWater) return soft::SetLowWater(fd_.fd(), static_cast<int>(bytes));
    StopLooking();
    if (bytes > 1) LookFor(bytes);
    fd_.Modify(looking_ ? events_ & ~os::kReadable : events_);
  }
  void SetHandshakeOptions(Duration keepalive) override { soft::SetHandshakeOptions(fd_.fd(), keepalive); }
  void SetHandOverOptions() override { soft::SetHandOverOptions(fd_.fd()); }
  void ResetOnClose(bool reset) override { soft::SetResetOnClose(fd_.fd(), reset); }

  UniqueFd Release() override {
    StopLooking();
    return fd_.Release();
  }

 private:
  void StopLooking() {
    if (looking_) loop_.Cancel(*std::exchange(looking_, std::nullopt));
  }
  void LookFor(std::size_t bytes) {
    looking_ = loop_.At(loop_.clock().Now() + kLook, [this, bytes] {
      std::array<std::byte, kHandshakePeek> unread;
      const std::ptrdiff_t count = soft::Peek(fd_.fd(), unread);
      if (count > 0 && static_cast<std::size_t>(count) < std::min(bytes, unread.size()) && !PeerClosed()) {
        return LookFor(bytes);
      }
      looking_.reset();
      fd_.Modify(events_);
      const Ready ready = ready_;  // It may end this object.
      ready(os::kReadable);
    });
  }

  EventLoop& loop_;
  Registered fd_;
  // Of a system without a low-water mark; the timer runs while too few bytes are unread.
  Ready ready_;
  std::uint32_t events_ = 0;
  std::optional<EventLoop::TimerId> looking_;
};

class SystemTcp::SharedSocket final : public Socket {
 public:
  SharedSocket(SystemTcp& tcp, UniqueFd fd, std::function<void()> waited)
      : Socket(tcp.loop_, std::move(fd)), alarm_(tcp.alarm()), waited_(std::move(waited)) {}
  ~SharedSocket() override {
    UniqueFd fd = Release();
    alarm_.Set();
    fd.reset();
    alarm_.Clear();
  }

  int Connect(const Address& remote) override {
    alarm_.Set();
    const int error = Socket::Connect(remote);
    alarm_.Clear();
    if (error == EINTR) waited_();
    return error;
  }

 private:
  os::CallAlarm& alarm_;
  const std::function<void()> waited_;
};

class SystemTcp::Listener : public TcpListener {
 public:
  Listener(SystemTcp& tcp, UniqueFd fd) : tcp_(tcp), fd_(tcp.loop_, std::move(fd)) {}

  int fd() const { return fd_.fd(); }

  bool Watch(std::uint32_t events, Ready ready) override { return fd_.Add(events, std::move(ready)); }
  void SetEvents(std::uint32_t events) override { fd_.Modify(events); }
  void Unwatch() override { fd_.Remove(); }

  bool StartListening() override { return HoldAgain().ok() && soft::StartListening(fd_.fd()); }
  // Without flexible ports: the port is free for a moment.
  void StopListening() override {
    if (kFlexiblePorts) return soft::StopListening(fd_.fd());
    at_ = LocalAddressOf(fd_.fd());
    fd_.descriptor().reset();
    static_cast<void>(HoldAgain());  // StartListening() tries again.
  }
  // A socket that connects from this port. Without flexible ports it has the port until it is closed.
  Result<UniqueFd> Beside(const Address& local) {
    if (kFlexiblePorts) return BindBeside(fd_.fd(), local);
    at_ = local;
    if (const Status status = HoldAgain(); !status.ok()) return status;
    return std::move(fd_.descriptor());
  }

  Accepted Accept() override {
    os::Accepted accepted = os::Accept(fd_.fd());
    std::unique_ptr<TcpSocket> socket;
    if (accepted.fd) socket = tcp_.Adopt(std::move(accepted.fd));
    return {accepted.result, std::move(socket), accepted.error};
  }
  void RefuseOldest() override {
    if (const UniqueFd refused = tcp_.spare_.AcceptToRefuse(fd_.fd())) SetResetOnClose(refused.get(), true);
    tcp_.spare_.Refill();
  }

 private:
  Status HoldAgain() {
    if (fd_.descriptor()) return Status::Ok();
    Result<UniqueFd> held = HoldPort(at_);
    if (!held.ok()) return held.status();
    fd_.descriptor() = std::move(held).value();
    return Status::Ok();
  }

  SystemTcp& tcp_;
  Registered fd_;
  Address at_;  // While there is no socket.
};

class SystemTcp::SharedListener final : public Listener {
 public:
  SharedListener(SystemTcp& tcp, UniqueFd fd) : Listener(tcp, std::move(fd)), alarm_(tcp.alarm()) {}

  // Nobody holds its port: while the service manager still has a copy, another socket may listen there.
  void StopListening() override { os::ShutDown(fd(), os::Direction::kReceive); }
  Accepted Accept() override {
    alarm_.Set();
    Accepted accepted = Listener::Accept();
    alarm_.Clear();
    return accepted;
  }
  void RefuseOldest() override {
    alarm_.Set();
    Listener::RefuseOldest();
    alarm_.Clear();
  }

 private:
  os::CallAlarm& alarm_;
};

SystemTcp::SystemTcp(EventLoop& loop, os::KeptSockets& kept) : loop_(loop), kept_(kept) {}

std::unique_ptr<TcpSocket> SystemTcp::Adopt(UniqueFd fd) {
  return std::make_unique<Socket>(loop_, std::move(fd));
}
std::unique_ptr<TcpListener> SystemTcp::AdoptListener(UniqueFd fd) {
  return std::make_unique<Listener>(*this, std::move(fd));
}
std::unique_ptr<TcpSocket> SystemTcp::AdoptShared(UniqueFd fd, std::function<void()> waited) {
  return std::make_unique<SharedSocket>(*this, std::move(fd), std::move(waited));
}
std::unique_ptr<TcpListener> SystemTcp::AdoptSharedListener(UniqueFd fd) {
  return std::make_unique<SharedListener>(*this, std::move(fd));
}

os::CallAlarm& SystemTcp::alarm() {
  if (!alarm_) alarm_.emplace(kLongestCall);
  return *alarm_;
}

Time SystemTcp::Now() const {
  return loop_.clock().Now();
}
EventLoop::TimerId SystemTcp::At(Time when, EventLoop::Callback callback) {
  return loop_.At(when, std::move(callback));
}
void SystemTcp::Cancel(EventLoop::TimerId timer) {
  loop_.Cancel(timer);
}

Result<std::unique_ptr<TcpSocket>> SystemTcp::SocketFrom(const Address& local) {
  Result<UniqueFd> fd = BindWithoutPort(local);
  if (!fd.ok()) return fd.status();
  return Adopt(std::move(fd).value());
}
Result<std::unique_ptr<TcpSocket>> SystemTcp::SocketBeside(TcpListener* held, const Address& local) {
  Result<UniqueFd> fd = held == nullptr ? BindBeside(-1, local) : static_cast<Listener*>(held)->Beside(local);
  if (!fd.ok()) return fd.status();
  return Adopt(std::move(fd).value());
}
Result<std::unique_ptr<TcpListener>> SystemTcp::Hold(const Address& address) {
  Result<UniqueFd> fd = HoldPort(address);
  if (!fd.ok()) return fd.status();
  return AdoptListener(std::move(fd).value());
}
Result<std::unique_ptr<TcpListener>> SystemTcp::Listen(const Address& address) {
  Result<UniqueFd> fd = ListenOn(address);
  if (!fd.ok()) return fd.status();
  return AdoptListener(std::move(fd).value());
}
void SystemTcp::RefillSpare() {
  spare_.Refill();
}

bool SystemTcp::keeps() const {
  return kept_.keeps();
}
std::unique_ptr<TcpListener> SystemTcp::Take(const os::NetworkAddress& address) {
  UniqueFd fd = kept_.Take(address);
  if (!fd) return nullptr;
  return address.network == 0 ? AdoptListener(std::move(fd)) : AdoptSharedListener(std::move(fd));
}
bool SystemTcp::Keep(const os::NetworkAddress& address, const TcpListener& listener) {
  return kept_.Keep(address, static_cast<const Listener&>(listener).fd());
}
void SystemTcp::Drop(const os::NetworkAddress& address) {
  kept_.Drop(address);
}
void SystemTcp::DropUnclaimed() {
  kept_.DropUnclaimed();
}

}  // namespace nd::provider::soft
