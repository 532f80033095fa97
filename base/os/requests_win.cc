// SPDX-License-Identifier: Apache-2.0
// Console events: Ctrl+C interrupts; closing the console, logging off and shutting down terminate.
#include "base/os/requests_win.h"

#include <windows.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace nd::os {
namespace {

// The system calls a function without an argument for the caller's use.
struct Arrived {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Request> requests;

  static Arrived& The() {
    static auto* const arrived = new Arrived;
    return *arrived;
  }
};

BOOL WINAPI OnConsoleEvent(DWORD event) {
  Arrive(event == CTRL_C_EVENT ? Request::kInterrupt : Request::kTerminate);
  // The process ends when this function returns from any other event.
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) ::Sleep(INFINITE);
  return TRUE;
}

}  // namespace

void Arrive(Request request) {
  Arrived& arrived = Arrived::The();
  {
    const std::lock_guard lock(arrived.mutex);
    arrived.requests.push_back(request);
  }
  arrived.changed.notify_all();
}

std::string_view Name(Request request) {
  switch (request) {
    case Request::kTerminate:
      return "a request to end";
    case Request::kInterrupt:
      return "Ctrl+C";
    case Request::kReload:
      break;
  }
  return "a request to read the configuration";
}

Requests::Requests(std::vector<Request> taken) : taken_(std::move(taken)) {
  ::SetConsoleCtrlHandler(OnConsoleEvent, TRUE);
}

Request Requests::Wait() const {
  Arrived& arrived = Arrived::The();
  std::unique_lock lock(arrived.mutex);
  for (;;) {
    const auto found = std::ranges::find_if(
        arrived.requests, [&](Request each) { return std::ranges::find(taken_, each) != taken_.end(); });
    if (found != arrived.requests.end()) {
      const Request request = *found;
      arrived.requests.erase(found);
      return request;
    }
    arrived.changed.wait(lock);
  }
}

}  // namespace nd::os
