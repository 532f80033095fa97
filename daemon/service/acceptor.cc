// SPDX-License-Identifier: Apache-2.0
// gRPC's own listener stops for good after one EMFILE and cannot say who called; hence this one.
#include "daemon/service/acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/ops/logging.h"

namespace nd::service {
namespace {

constexpr int kPerRound = 64;  // Others on the loop get their turn in between.
constexpr Duration kPause = std::chrono::milliseconds(50);

UniqueFd Reserve() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

Acceptor::Acceptor(EventLoop& loop, const char* name, ops::Door& door, UniqueFd listener, Accepted accepted)
    : loop_(loop),
      name_(name),
      door_(door),
      listener_(std::move(listener)),
      reserve_(Reserve()),
      accepted_(std::move(accepted)) {
  if (!loop_.Add(listener_.get(), EPOLLIN, [this](std::uint32_t) { OnReadable(); })) Pause();
}

Acceptor::~Acceptor() {
  if (pause_) {
    loop_.Cancel(*pause_);
  } else {
    loop_.Remove(listener_.get());
  }
}

void Acceptor::OnReadable() {
  for (int i = 0; i < kPerRound; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      if (const std::optional<Peer> peer = PeerOf(fd.get())) {
        accepted_(std::move(fd), *peer);
      } else {
        door_.Refuse(ops::Refusal::kCredentials);
        ops::LogWarning("connection refused",
                        std::string(name_) + ": the kernel does not say whose it is; it was closed");
      }
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return;
      case EINTR:
      case ECONNABORTED:
        continue;
      default:  // EMFILE, ENFILE, ENOMEM, ENOBUFS
        return OutOfDescriptors(errno);
    }
  }
}

void Acceptor::OutOfDescriptors(int error) {
  door_.Fail(error);
  ops::LogWarning("accept failed", std::string(name_) + ": " + std::strerror(error) +
                                       "; clients are turned away until descriptors are free");
  if (reserve_) {
    reserve_.reset();
    UniqueFd turned_away(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }
  reserve_ = Reserve();
  loop_.Remove(listener_.get());
  Pause();
}

void Acceptor::Pause() {
  pause_ = loop_.At(loop_.clock().Now() + kPause, [this] {
    pause_.reset();
    if (!reserve_) reserve_ = Reserve();
    if (!loop_.Add(listener_.get(), EPOLLIN, [this](std::uint32_t) { OnReadable(); })) Pause();
  });
}

}  // namespace nd::service
