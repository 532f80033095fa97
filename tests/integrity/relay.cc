// SPDX-License-Identifier: Apache-2.0
// Sends may block here, because both ends always read until the connection ends.
#include "tests/integrity/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nd::integrity {
namespace {

constexpr std::size_t kMpaHeader = 20;

sockaddr_in At(const std::string& address, std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  return at;
}

// Resets the connection, as the other side did.
void Reset(UniqueFd& fd) {
  const linger now{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  fd.reset();
}

}  // namespace

Relay::Relay(const std::string& address, std::uint16_t from, std::uint16_t to, const std::string& source)
    : source_(source), address_(address), to_(to) {
  listener_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in at = At(address, from);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 ||
      listen(listener_.get(), 64) != 0) {
    error_ = std::string("cannot listen at ") + address + ": " + std::strerror(errno);
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    error_ = "cannot make a pipe";
    return;
  }
  stop_[0].reset(ends[0]);
  stop_[1].reset(ends[1]);
  thread_ = std::thread([this] { Run(); });
}

Relay::~Relay() {
  stop_[1].reset();
  if (thread_.joinable()) thread_.join();
}

void Relay::SetPlan(std::function<Flip(std::uint64_t)> plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
  connections_ = 0;
  flipped_ = 0;
}

void Relay::Run() {
  for (;;) {
    std::vector<pollfd> wait = {{stop_[0].get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& pair : pairs_) {
      for (const Way& way : pair->ways) {
        wait.push_back({way.ended ? -1 : way.from->get(), POLLIN, 0});
      }
    }
    if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) return;
    if (wait[0].revents != 0) return;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      Pair& pair = *pairs_[i];
      for (int way = 0; way < 2 && !pair.done; ++way) {
        if (wait[2 + 2 * i + static_cast<std::size_t>(way)].revents != 0 && !Move(pair, way))
          pair.done = true;
      }
    }
    std::erase_if(pairs_, [](const auto& pair) { return pair->done; });
    if (wait[1].revents != 0) Take();
  }
}

void Relay::Take() {
  auto pair = std::make_unique<Pair>();
  pair->active.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  pair->passive.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in source = At(source_, 0), to = At(address_, to_);
  if (!pair->active ||
      bind(pair->passive.get(), reinterpret_cast<const sockaddr*>(&source), sizeof(source)) != 0 ||
      connect(pair->passive.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    return;
  }
  const int on = 1;
  for (const UniqueFd* fd : {&pair->active, &pair->passive}) {
    setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  pair->ways[0].from = &pair->active;
  pair->ways[0].to = &pair->passive;
  pair->ways[1].from = &pair->passive;
  pair->ways[1].to = &pair->active;
  pairs_.push_back(std::move(pair));
}

bool Relay::Move(Pair& pair, int way) {
  Way& at = pair.ways[way];
  std::uint8_t bytes[65536];
  const ssize_t got = recv(at.from->get(), bytes, sizeof(bytes), 0);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0) {  // Passes a reset on as a reset.
    Reset(*at.to);
    return false;
  }
  if (got == 0) {
    at.ended = true;
    shutdown(at.to->get(), SHUT_WR);
    return !pair.ways[1 - way].ended;
  }
  Pass(pair, way, bytes, static_cast<std::size_t>(got));
  for (std::size_t done = 0; done < static_cast<std::size_t>(got);) {
    const ssize_t sent = send(at.to->get(), bytes + done, static_cast<std::size_t>(got) - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      Reset(*at.from);
      return false;
    }
    done += static_cast<std::size_t>(sent);
  }
  return true;
}

void Relay::Count(Pair& pair) {
  const std::lock_guard lock(mutex_);
  pair.counted = true;
  pair.flip = plan_ ? plan_(connections_) : Flip{.none = true};
  ++connections_;
}

void Relay::Pass(Pair& pair, int way, std::uint8_t* bytes, std::size_t size) {
  Way& at = pair.ways[way];
  const Flip& flip = pair.flip;
  for (std::size_t i = 0; i < size; ++i) {
    if (!at.started) {
      at.head.push_back(bytes[i]);
      at.started = at.head.size() >= kMpaHeader &&
                   at.head.size() == kMpaHeader + (std::size_t{at.head[18]} << 8 | at.head[19]);
      continue;
    }
    // The connection is established now; refused ones do not count.
    if (!pair.counted) Count(pair);
    const bool mine = !flip.none && flip.to_active == (way == 1);
    const std::uint8_t original = bytes[i];
    const bool here =
        flip.in_frame ? at.frame == flip.frame && at.in_frame == flip.byte : at.streamed == flip.byte;
    if (mine && here) {
      bytes[i] = static_cast<std::uint8_t>(original ^ (1u << flip.bit));
      ++flipped_;
      pair.flip.none = true;
    }
    ++at.streamed;
    ++at.in_frame;
    if (at.in_frame == 1) at.length_high = original;
    if (at.in_frame == 2) {
      const std::uint64_t ulpdu = std::uint64_t{at.length_high} << 8 | original;
      at.frame_size = (2 + ulpdu + 3) / 4 * 4 + 4;
      if (mine && flip.in_frame && at.frame == flip.frame) frame_size_ = at.frame_size;
    }
    if (at.in_frame >= 2 && at.in_frame == at.frame_size) {
      at.in_frame = 0;
      at.frame_size = 0;
      ++at.frame;
    }
  }
}

}  // namespace nd::integrity
