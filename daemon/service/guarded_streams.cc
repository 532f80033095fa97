// SPDX-License-Identifier: Apache-2.0
// Two pumps for each connection. A pump reads no more until everything that it read is written.
#include "daemon/service/guarded_streams.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "base/os/readiness.h"
#include "base/os/socket.h"
#include "base/os/thread.h"

namespace nd::service {
namespace {

constexpr std::size_t kChunk = os::kStreamMessage;
constexpr auto kLastWords = std::chrono::milliseconds(250);

}  // namespace

// One connection. Calls End() of its owner at most once, and does nothing afterwards.
class GuardedStreams::Stream {
 public:
  Stream(GuardedStreams& owner, std::uint64_t id, UniqueFd client, UniqueFd inner, const Peer& peer)
      : owner_(owner), id_(id), peer_(peer) {
    client_.fd = std::move(client);
    inner_.fd = std::move(inner);
  }
  ~Stream() {
    if (pause_) owner_.loop_.Cancel(*pause_);
    for (Side* side : {&client_, &inner_}) {
      if (side->watched) owner_.loop_.Remove(side->fd.get());
    }
    // A duplicate of the socket elsewhere sees the end, too.
    os::ShutDown(client_.fd.get(), os::Direction::kBoth);
  }

  std::uint32_t uid() const { return peer_.uid; }
  // Returns false when the kernel refuses to watch the sockets.
  bool Open() { return Watch(client_, os::kReadable) && Watch(inner_, os::kReadable); }

 private:
  struct Side {
    UniqueFd fd;
    bool watched = false, ended = false;  // `ended`: no more bytes are read from this side.
    std::uint32_t events = os::kReadable;
    std::vector<std::byte> unsent;  // Bytes that wait to be written to this side.
    std::size_t sent = 0;
  };

  void OnSocket(Side& side, std::uint32_t events) {
    Side& other = &side == &client_ ? inner_ : client_;
    const bool broken = (events & os::kFailed) != 0 || (&side == &client_ && (events & os::kHungUp) != 0);
    if (broken || ((events & os::kWritable) != 0 && !Flush(side))) return owner_.End(id_);
    const bool paused = &side == &client_ && pause_.has_value();
    if ((events & (os::kReadable | os::kHungUp)) != 0 && !side.ended && !paused && other.unsent.empty() &&
        !Read(side, other)) {
      return;
    }
    Settle();
  }

  // Returns false when this object is destroyed.
  bool Read(Side& from, Side& to) {
    static thread_local std::array<std::byte, kChunk> buffer;
    if (&from == &client_ && PausedByDebt()) return true;
    const std::ptrdiff_t n = os::Receive(from.fd.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n < 0) {
      owner_.End(id_);
      return false;
    }
    if (n == 0) {
      from.ended = true;
      os::ShutDown(to.fd.get(), os::Direction::kSend);
      return true;
    }
    const std::span<const std::byte> bytes(buffer.data(), static_cast<std::size_t>(n));
    if (&from == &client_ && owner_.options_.limits) {
      if (const std::string_view why = guard_.Take(bytes, owner_.clock_.Now()); !why.empty()) {
        if (owner_.options_.on_flood != nullptr) owner_.options_.on_flood(peer_, why);
        Charge(static_cast<std::size_t>(
            Http2Guard::kStreams.burst));  // A connection that closes at once is charged, too.
        owner_.End(id_);
        return false;
      }
      Charge(0);
    }
    const std::ptrdiff_t sent = os::Send(to.fd.get(), bytes.data(), bytes.size());
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      owner_.End(id_);
      return false;
    }
    const auto rest = bytes.subspan(sent < 0 ? 0 : static_cast<std::size_t>(sent));
    to.unsent.assign(rest.begin(), rest.end());
    to.sent = 0;
    return true;
  }

  // Returns false when that side is broken.
  bool Flush(Side& to) {
    while (to.sent < to.unsent.size()) {
      const std::ptrdiff_t n = os::Send(to.fd.get(), to.unsent.data() + to.sent, to.unsent.size() - to.sent);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      to.sent += static_cast<std::size_t>(n);
    }
    to.unsent.clear();
    return true;
  }

  // The end of gRPC is not watched while nothing has to be read or written: epoll would report its hang-up in
  // a loop.
  void Settle() {
    // gRPC has closed, and the client has received every byte.
    if (inner_.ended && client_.unsent.empty()) return owner_.End(id_);
    for (Side* side : {&client_, &inner_}) {
      const Side& other = side == &client_ ? inner_ : client_;
      const bool paused = side == &client_ && pause_.has_value();
      const std::uint32_t wanted = (!side->ended && !paused && other.unsent.empty() ? os::kReadable : 0u) |
                                   (side->unsent.empty() ? 0u : os::kWritable);
      if (side == &inner_ && side->watched == (wanted == 0)) {
        if (std::exchange(side->watched, false)) {
          owner_.loop_.Remove(side->fd.get());
        } else if (!Watch(*side, wanted)) {
          return owner_.End(id_);
        }
      } else if (wanted != side->events && side->watched) {
        owner_.loop_.Modify(side->fd.get(), wanted);
      }
      side->events = wanted;
    }
  }
  bool Watch(Side& side, std::uint32_t events) {
    side.watched = owner_.loop_.Add(
        side.fd.get(), events, [this, &side](std::uint32_t seen) { OnSocket(side, seen); },
        Account{peer_.uid});
    return side.watched;
  }

  // Charges the user for the streams since the last call, and for `more`.
  void Charge(std::size_t more) {
    const std::size_t begun = guard_.streams_begun() - std::exchange(charged_, guard_.streams_begun());
    owner_.users_.at(peer_.uid).streams.Charge(begun + more, owner_.clock_.Now());
  }
  // Returns true when the user has begun streams faster than allowed; the client is then read later.
  bool PausedByDebt() {
    const Time now = owner_.clock_.Now();
    const Duration debt = owner_.users_.at(peer_.uid).streams.Debt(now);
    if (debt == Duration::zero()) return false;
    pause_ = owner_.loop_.At(now + debt, [this] {
      pause_.reset();
      Settle();
    });
    return true;
  }

  GuardedStreams& owner_;
  const std::uint64_t id_;
  Side client_, inner_;
  const Peer peer_;
  Http2Guard guard_;
  std::size_t charged_ = 0;  // The part of guard_.streams_begun() that the user was charged for.
  std::optional<EventLoop::TimerId> pause_;
};

GuardedStreams::GuardedStreams(Options options) : options_(std::move(options)), loop_(clock_) {
  thread_ = std::thread([this] { loop_.Run(); });
  os::NameThread(thread_, "nd-guard");
}

GuardedStreams::~GuardedStreams() {
  const auto end = std::chrono::steady_clock::now() + kLastWords;
  const auto busy = [this] {
    const std::lock_guard lock(mutex_);
    return !peers_.empty();
  };
  while (busy() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  loop_.Stop();
  thread_.join();
}

UniqueFd GuardedStreams::Guard(UniqueFd client, const Peer& peer) {
  UniqueFd inner, grpc;
  if (!os::MakeStreamPair(&inner, &grpc, /*blocking=*/false)) return {};
  const std::uint64_t id = os::SocketNumber(grpc.get());
  if (id == 0) return {};
  {
    const std::lock_guard lock(mutex_);
    peers_[id] = peer;
  }
  // std::function must be copyable, but descriptors are not.
  auto sockets = std::make_shared<std::pair<UniqueFd, UniqueFd>>(std::move(client), std::move(inner));
  loop_.Post(
      [this, id, sockets, peer] { Begin(id, std::move(sockets->first), std::move(sockets->second), peer); });
  return grpc;
}

void GuardedStreams::Begin(std::uint64_t id, UniqueFd client, UniqueFd inner, const Peer& peer) {
  ++users_.try_emplace(peer.uid, User{Bucket(options_.streams_per_uid)}).first->second.connections;
  auto& stream = streams_[id];
  stream = std::make_unique<Stream>(*this, id, std::move(client), std::move(inner), peer);
  if (!stream->Open()) End(id);
}

void GuardedStreams::End(std::uint64_t id) {
  const auto found = streams_.find(id);
  User& user = users_.at(found->second->uid());
  --user.connections;
  streams_.erase(found);
  // A user without connections is forgotten once its debt is paid.
  const Time now = clock_.Now();
  std::erase_if(users_, [now](const auto& entry) {
    return entry.second.connections == 0 && entry.second.streams.full(now);
  });
  const std::lock_guard lock(mutex_);
  peers_.erase(id);
}

std::optional<Peer> GuardedStreams::PeerOfCall(std::string_view grpc_peer) const {
  const std::optional<Peer> own = service::PeerOfCall(grpc_peer);
  if (!own) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(own->cookie);
  return found == peers_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace nd::service
