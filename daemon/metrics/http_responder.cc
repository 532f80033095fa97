// SPDX-License-Identifier: Apache-2.0
// Sockets, deadlines and slots. http_request.cc parses the requests.
#include "daemon/metrics/http_responder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/event_loop.h"
#include "base/os/accept.h"
#include "base/os/readiness.h"
#include "base/os/socket.h"
#include "base/os/thread.h"
#include "daemon/ops/source_slots.h"

namespace nd::ops {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(50);
constexpr int kAnswerTimes = 5;
constexpr std::uint32_t kOpenForServed = 4;
constexpr int kAcceptsPerRound =
    16;  // Bounds one round, so that connections with a request are served in between.
constexpr std::size_t kMostDrained = 64 * 1024;

const HttpRefusal kCrowded{503, "Too many connections at once; try again in a second."};

HttpAnswer Refuse(const HttpRefusal& refusal) {
  return {refusal.code, "text/plain; charset=utf-8", refusal.sentence + "\n"};
}

}  // namespace

class HttpResponder::Impl {
 public:
  Impl(Options options, Handler handler)
      : options_(std::move(options)), handler_(std::move(handler)), loop_(clock_) {
    thread_ = std::thread([this] { loop_.Run(); });
    os::NameThread(thread_, "nd-http");
  }

  ~Impl() {
    {
      const std::lock_guard lock(gate_->mutex);
      gate_->owner = nullptr;
    }
    loop_.Stop();
    thread_.join();
  }

  std::function<void(std::function<void()>)> Poster() const {
    return [gate = gate_](std::function<void()> function) {
      const std::lock_guard lock(gate->mutex);
      if (gate->owner != nullptr) gate->owner->loop_.Post(std::move(function));
    };
  }

  void Serve(UniqueFd listener, Terms terms) {
    auto shared = std::make_shared<UniqueFd>(std::move(listener));
    loop_.Post([this, shared, terms = std::move(terms)] {
      listeners_.push_back(std::make_unique<Listener>(
          Listener{std::move(*shared), terms,
                   SourceSlots(kOpenForServed * options_.connections, options_.connections)}));
      Resume(*listeners_.back());
    });
  }

 private:
  struct Listener {
    UniqueFd fd;
    Terms terms;
    SourceSlots slots;
    bool watched = false;
  };
  enum class Phase { kRequest, kHandler, kAnswer, kFarewell };
  struct Connection {
    UniqueFd fd;
    Listener* listener = nullptr;
    bool head = false;
    Phase phase = Phase::kRequest;
    std::string text;  // The request, then the response.
    std::size_t sent = 0, drained = 0;
    Time cut{};  // kAnswer: the connection is closed at this time in any case.
    std::optional<EventLoop::TimerId> timer;
  };
  // Answers come from other threads, possibly after the end of the responder.
  struct Gate {
    std::mutex mutex;
    Impl* owner = nullptr;
  };
  using Id = std::uint64_t;

  void Resume(Listener& listener) {
    if (listener.watched) return;
    if (loop_.Add(listener.fd.get(), os::kReadable,
                  [this, &listener](std::uint32_t) { OnListener(listener); })) {
      listener.watched = true;
    } else {
      Later(listener);
    }
  }
  void Suspend(Listener& listener) {
    if (std::exchange(listener.watched, false)) loop_.Remove(listener.fd.get());
  }
  void Later(Listener& listener) {
    loop_.At(loop_.clock().Now() + kAcceptPause, [this, &listener] { Resume(listener); });
  }

  void OnListener(Listener& listener) {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
      os::Accepted accepted = os::Accept(listener.fd.get());
      if (accepted.result == os::Accepted::Result::kNone) return;
      if (!accepted.fd && options_.on_accept_error != nullptr) options_.on_accept_error(accepted.error);
      if (accepted.result == os::Accepted::Result::kExhausted && spare_) {
        // The responder must work when the broker has no descriptor left, because an administrator needs it
        // then.
        spare_.Release();
        continue;
      }
      if (!accepted.fd) {
        Suspend(listener);
        return Later(listener);
      }
      if (!Begin(listener, std::move(accepted.fd))) return Suspend(listener);  // Until a connection closes.
    }
  }

  // Returns false when every slot is in use; the client then got a refusal.
  bool Begin(Listener& listener, UniqueFd fd) {
    const Id id = ++last_id_;
    const SourceSlots::Entry entry = listener.slots.Enter(id, SourceOf(fd.get()));
    if (!entry.admitted) {
      TurnAway(fd.get());
      return false;
    }
    if (entry.evicted) {
      if (connections_.at(*entry.evicted).phase == Phase::kRequest) {
        TurnAway(connections_.at(*entry.evicted).fd.get());
      }
      End(*entry.evicted);
    }
    Connection& connection = connections_[id];
    connection.fd = std::move(fd);
    connection.listener = &listener;
    if (!loop_.Add(connection.fd.get(), os::kReadable,
                   [this, id](std::uint32_t events) { OnSocket(id, events); })) {
      End(id);
      return true;
    }
    Arm(id, options_.request_time);
    ReadRequest(id);  // The request is often there already.
    return true;
  }

  // Sends as much of the refusal as possible without blocking.
  void TurnAway(int fd) {
    std::array<char, kMaxHttpRequest> unread;
    os::Receive(fd, unread.data(), unread.size());
    const std::string text = EncodeHttpAnswer(Refuse(kCrowded), false, std::time(nullptr));
    os::Send(fd, text.data(), text.size());
  }

  void Arm(Id id, Duration time) {
    Connection& connection = connections_.at(id);
    if (connection.timer) loop_.Cancel(*connection.timer);
    connection.timer = loop_.At(loop_.clock().Now() + time, [this, id] {
      connections_.at(id).timer.reset();
      OnDeadline(id);
    });
  }

  void OnDeadline(Id id) {
    switch (connections_.at(id).phase) {
      case Phase::kRequest:
        return Respond(
            id, Refuse({408,
                        "The request was not complete within " +
                            std::to_string(
                                std::chrono::ceil<std::chrono::milliseconds>(options_.request_time).count()) +
                            " ms."}));
      case Phase::kHandler:
        return Respond(id, Refuse({503, "The broker did not answer in time; its loop is busy or stuck."}));
      case Phase::kAnswer:
      case Phase::kFarewell:
        return End(id);
    }
  }

  void OnSocket(Id id, std::uint32_t events) {
    Connection& connection = connections_.at(id);
    switch (connection.phase) {
      case Phase::kRequest:
        return ReadRequest(id);
      case Phase::kHandler:
        if ((events & (os::kHungUp | os::kFailed)) != 0) End(id);
        return;
      case Phase::kAnswer:
        return (events & (os::kHungUp | os::kFailed)) != 0 ? End(id) : WriteAnswer(id);
      case Phase::kFarewell:
        return Drain(id);
    }
  }

  void ReadRequest(Id id) {
    Connection& connection = connections_.at(id);
    std::array<char, kMaxHttpRequest> buffer;
    const std::ptrdiff_t n =
        os::Receive(connection.fd.get(), buffer.data(), kMaxHttpRequest - connection.text.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0 || (n == 0 && connection.text.empty())) return End(id);
    if (n == 0) return Respond(id, Refuse({400, "The request ended before its headers did."}));
    connection.text.append(buffer.data(), static_cast<std::size_t>(n));
    const auto judged = ParseHttpRequest(connection.text);
    if (const auto* refusal = std::get_if<HttpRefusal>(&judged)) return Respond(id, Refuse(*refusal));
    const auto* request = std::get_if<HttpRequest>(&judged);
    if (request == nullptr) return;
    connection.head = request->head;
    if (!connection.listener->slots.Serve(id)) return Respond(id, Refuse(kCrowded));
    if (connection.listener->terms.refuse != nullptr) {
      const std::string why = connection.listener->terms.refuse(connection.fd.get());
      if (!why.empty()) return Respond(id, Refuse({403, why}));
    }
    if (connection.listener->terms.check_host && !IsOwnHost(request->host, options_.host_names)) {
      return Respond(
          id, Refuse({421, "This broker is not \"" + *request->host +
                               "\": use an address or localhost, or list the name under \"host-names\" "
                               "in [metrics] of the configuration."}));
    }
    connection.phase = Phase::kHandler;
    loop_.Modify(connection.fd.get(), 0);
    Arm(id, options_.handler_time);
    handler_(*request, [gate = gate_, id](HttpAnswer answer) {
      const std::lock_guard lock(gate->mutex);
      if (gate->owner == nullptr) return;
      gate->owner->loop_.Post([owner = gate->owner, id, answer = std::move(answer)]() mutable {
        const auto it = owner->connections_.find(id);
        if (it != owner->connections_.end() && it->second.phase == Phase::kHandler) {
          owner->Respond(id, answer);
        }
      });
    });
  }

  void Respond(Id id, const HttpAnswer& answer) {
    Connection& connection = connections_.at(id);
    connection.phase = Phase::kAnswer;
    connection.text = EncodeHttpAnswer(answer, connection.head, std::time(nullptr));
    connection.cut = loop_.clock().Now() + kAnswerTimes * options_.answer_time;
    Arm(id, options_.answer_time);
    loop_.Modify(connection.fd.get(), os::kWritable);
    WriteAnswer(id);
  }

  void WriteAnswer(Id id) {
    Connection& connection = connections_.at(id);
    const std::size_t before = connection.sent;
    while (connection.sent < connection.text.size()) {
      const std::ptrdiff_t n = os::Send(connection.fd.get(), connection.text.data() + connection.sent,
                                        connection.text.size() - connection.sent);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) return End(id);
      connection.sent += static_cast<std::size_t>(n);
    }
    connection.listener->slots.AwaitReader(id);
    if (connection.sent < connection.text.size()) {
      if (connection.sent > before)
        Arm(id, std::min(options_.answer_time, connection.cut - loop_.clock().Now()));
      return;
    }
    // Closing a socket with unread bytes would discard the response at the client.
    connection.text.clear();
    connection.phase = Phase::kFarewell;
    os::ShutDown(connection.fd.get(), os::Direction::kSend);
    Arm(id, options_.answer_time / 4);
    loop_.Modify(connection.fd.get(), os::kReadable);
    Drain(id);
  }

  void Drain(Id id) {
    Connection& connection = connections_.at(id);
    std::array<char, 4096> buffer;
    for (;;) {
      const std::ptrdiff_t n = os::Receive(connection.fd.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return End(id);
      connection.drained += static_cast<std::size_t>(n);
      if (connection.drained > kMostDrained) return End(id);
    }
  }

  void End(Id id) {
    const auto it = connections_.find(id);
    if (it->second.timer) loop_.Cancel(*it->second.timer);
    loop_.Remove(it->second.fd.get());
    Listener& listener = *it->second.listener;
    listener.slots.Leave(id);
    connections_.erase(it);
    spare_.Refill();
    Resume(listener);
  }

  const Options options_;
  const Handler handler_;
  SystemClock clock_;
  EventLoop loop_;
  os::SpareDescriptor spare_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::map<Id, Connection> connections_;
  Id last_id_ = 0;
  std::shared_ptr<Gate> gate_ = [this] {
    auto gate = std::make_shared<Gate>();
    gate->owner = this;
    return gate;
  }();
  std::thread thread_;
};

HttpResponder::HttpResponder(Options options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}
HttpResponder::~HttpResponder() = default;
void HttpResponder::Serve(UniqueFd listener, Terms terms) {
  impl_->Serve(std::move(listener), std::move(terms));
}

std::function<void(std::function<void()>)> HttpResponder::Poster() const {
  return impl_->Poster();
}

}  // namespace nd::ops
