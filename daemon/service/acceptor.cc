// SPDX-License-Identifier: Apache-2.0
// The accept loop. The listener of gRPC stops for good after one EMFILE and does not report the peer, so the
// broker accepts connections itself.
#include "daemon/service/acceptor.h"

#include <string>

#include "base/os/error_text.h"
#include "base/os/readiness.h"
#include "daemon/ops/logging.h"

namespace nd::service {
namespace {

// The bounds of one round. The loop learns of other descriptors only between rounds, so a flood of
// connections must not extend one.
constexpr int kPerRound = 64;
constexpr Duration kRound = std::chrono::microseconds(200);
constexpr Duration kPause = std::chrono::milliseconds(50);

}  // namespace

Acceptor::Acceptor(EventLoop& loop, const char* name, ops::Door& door, UniqueFd listener, Accepted accepted)
    : loop_(loop), name_(name), door_(door), listener_(std::move(listener)), accepted_(std::move(accepted)) {
  if (!Watch()) Pause();
}

Acceptor::~Acceptor() {
  if (pause_) {
    loop_.Cancel(*pause_);
  } else {
    loop_.Remove(listener_.get());
  }
}

bool Acceptor::Watch() {
  return loop_.Add(
      listener_.get(), os::kReadable, [this](std::uint32_t) { OnReadable(); }, kArrivals);
}

void Acceptor::OnReadable() {
  const Time end = loop_.clock().Now() + kRound;
  for (int i = 0; i < kPerRound && (i == 0 || loop_.clock().Now() < end); ++i) {
    os::Accepted accepted = os::Accept(listener_.get());
    if (accepted.result == os::Accepted::Result::kNone) return;
    if (!accepted.fd) return OutOfDescriptors(accepted.error);
    if (const std::optional<Peer> peer = PeerOf(accepted.fd.get())) {
      accepted_(std::move(accepted.fd), *peer);
    } else {
      door_.Refuse(ops::Refusal::kCredentials);
      ops::LogWarning("connection refused",
                      std::string(name_) + ": the kernel does not say whose it is; it was closed");
    }
  }
}

void Acceptor::OutOfDescriptors(int error) {
  door_.Fail(error);
  ops::LogWarning("accept failed", std::string(name_) + ": " + os::ErrorText(error) +
                                       "; clients are turned away until descriptors are free");
  spare_.AcceptToRefuse(listener_.get()).reset();
  spare_.Refill();
  loop_.Remove(listener_.get());
  Pause();
}

void Acceptor::Pause() {
  pause_ = loop_.At(loop_.clock().Now() + kPause, [this] {
    pause_.reset();
    spare_.Refill();
    if (!Watch()) Pause();
  });
}

}  // namespace nd::service
