// SPDX-License-Identifier: Apache-2.0
#include "base/os/requests.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace nd::os {
namespace {

int SignalOf(Request request) {
  switch (request) {
    case Request::kTerminate:
      return SIGTERM;
    case Request::kInterrupt:
      return SIGINT;
    case Request::kReload:
      break;
  }
  return SIGHUP;
}

sigset_t SignalsOf(const std::vector<Request>& requests) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const Request request : requests) ::sigaddset(&signals, SignalOf(request));
  return signals;
}

}  // namespace

std::string_view Name(Request request) {
  switch (request) {
    case Request::kTerminate:
      return "SIGTERM";
    case Request::kInterrupt:
      return "SIGINT";
    case Request::kReload:
      break;
  }
  return "SIGHUP";
}

Requests::Requests(std::vector<Request> taken) : taken_(std::move(taken)) {
  // Threads inherit the mask.
  const sigset_t signals = SignalsOf(taken_);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

Request Requests::Wait() const {
  const sigset_t signals = SignalsOf(taken_);
  for (;;) {
    int number = 0;
    if (::sigwait(&signals, &number) != 0) continue;
    for (const Request request : taken_) {
      if (SignalOf(request) == number) return request;
    }
  }
}

}  // namespace nd::os
