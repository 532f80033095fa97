// SPDX-License-Identifier: Apache-2.0
// The thin part: sockets, deadlines and places. What a request says is judged in http_request.cc.
#include "daemon/ops/http_responder.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/event_loop.h"

namespace nd::ops {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(50);
constexpr int kAnswerTimes = 5;
constexpr std::size_t kMostDrained = 64 * 1024;

UniqueFd Reserve() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

HttpAnswer Refuse(const HttpRefusal& refusal) {
  return {refusal.code, "text/plain; charset=utf-8", refusal.sentence + "\n"};
}

}  // namespace

class HttpResponder::Impl {
 public:
  Impl(Options options, Handler handler)
      : options_(std::move(options)), handler_(std::move(handler)), loop_(clock_), reserve_(Reserve()) {
    thread_ = std::thread([this] { loop_.Run(); });
    ::pthread_setname_np(thread_.native_handle(), "nd-http");
  }

  ~Impl() {
    {
      const std::lock_guard lock(gate_->mutex);
      gate_->owner = nullptr;
    }
    loop_.Stop();
    thread_.join();
  }

  void Serve(UniqueFd listener, bool check_host) {
    auto shared = std::make_shared<UniqueFd>(std::move(listener));
    loop_.Post([this, shared, check_host] {
      listeners_.push_back(std::make_unique<Listener>(Listener{std::move(*shared), check_host}));
      Resume(*listeners_.back());
    });
  }

 private:
  struct Listener {
    UniqueFd fd;
    bool check_host = false;
    std::uint32_t connections = 0;
    bool watched = false;
  };
  enum class Phase { kRequest, kHandler, kAnswer, kFarewell };
  struct Connection {
    UniqueFd fd;
    Listener* listener = nullptr;
    bool crowded = false;  // There was no place: it gets 503.
    bool head = false;
    Phase phase = Phase::kRequest;
    std::string text;  // Of the request, then of the answer.
    std::size_t sent = 0, drained = 0;
    Time cut{};  // kAnswer: it is over then, whatever happens.
    std::optional<EventLoop::TimerId> timer;
  };
  // Answers come from other threads and may come when there is nobody left to take them.
  struct Gate {
    std::mutex mutex;
    Impl* owner = nullptr;
  };
  using Id = std::uint64_t;

  void Resume(Listener& listener) {
    if (listener.watched) return;
    if (loop_.Add(listener.fd.get(), EPOLLIN, [this, &listener](std::uint32_t) { OnListener(listener); })) {
      listener.watched = true;
    } else {
      Later(listener);
    }
  }
  void Suspend(Listener& listener) {
    if (std::exchange(listener.watched, false)) loop_.Remove(listener.fd.get());
  }
  void Later(Listener& listener) {
    loop_.At(clock_.Now() + kAcceptPause, [this, &listener] { Resume(listener); });
  }

  void OnListener(Listener& listener) {
    while (listener.connections < 2 * options_.connections) {
      UniqueFd fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const int error = fd ? 0 : errno;
      if (error != 0 && error != EINTR && error != ECONNABORTED && error != EAGAIN &&
          options_.on_accept_error != nullptr) {
        options_.on_accept_error(error);
      }
      if ((error == EMFILE || error == ENFILE) && reserve_) {
        // When the broker has no descriptor left is when somebody wants to look at it.
        reserve_.reset();
        continue;
      }
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error == EAGAIN) return;
      if (!fd) {
        Suspend(listener);
        return Later(listener);
      }
      Begin(listener, std::move(fd));
    }
    Suspend(listener);  // The rest waits in the kernel until somebody leaves.
  }

  void Begin(Listener& listener, UniqueFd fd) {
    const Id id = ++last_id_;
    Connection& connection = connections_[id];
    connection.fd = std::move(fd);
    connection.listener = &listener;
    connection.crowded = listener.connections >= options_.connections;
    ++listener.connections;
    if (!loop_.Add(connection.fd.get(), EPOLLIN,
                   [this, id](std::uint32_t events) { OnSocket(id, events); })) {
      return End(id);
    }
    Arm(id, options_.request_time);
  }

  void Arm(Id id, Duration time) {
    Connection& connection = connections_.at(id);
    if (connection.timer) loop_.Cancel(*connection.timer);
    connection.timer = loop_.At(clock_.Now() + time, [this, id] {
      connections_.at(id).timer.reset();
      OnDeadline(id);
    });
  }

  void OnDeadline(Id id) {
    switch (connections_.at(id).phase) {
      case Phase::kRequest:
        return Say(
            id, Refuse({408,
                        "The request was not complete within " +
                            std::to_string(
                                std::chrono::ceil<std::chrono::milliseconds>(options_.request_time).count()) +
                            " ms."}));
      case Phase::kHandler:
        return Say(id, Refuse({503, "The broker did not answer in time; its loop is busy or stuck."}));
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
        if ((events & (EPOLLHUP | EPOLLERR)) != 0) End(id);
        return;
      case Phase::kAnswer:
        return (events & (EPOLLHUP | EPOLLERR)) != 0 ? End(id) : WriteAnswer(id);
      case Phase::kFarewell:
        return Drain(id);
    }
  }

  void ReadRequest(Id id) {
    Connection& connection = connections_.at(id);
    std::array<char, kMaxHttpRequest> buffer;
    const ssize_t n = ::recv(connection.fd.get(), buffer.data(), kMaxHttpRequest - connection.text.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0 || (n == 0 && connection.text.empty())) return End(id);
    if (n == 0) return Say(id, Refuse({400, "The request ended before its headers did."}));
    connection.text.append(buffer.data(), static_cast<std::size_t>(n));
    const auto judged = ParseHttpRequest(connection.text);
    if (const auto* refusal = std::get_if<HttpRefusal>(&judged)) return Say(id, Refuse(*refusal));
    const auto* request = std::get_if<HttpRequest>(&judged);
    if (request == nullptr) return;
    connection.head = request->head;
    if (connection.crowded) {
      return Say(id, Refuse({503, "Too many connections at once; try again in a second."}));
    }
    if (connection.listener->check_host && !IsOwnHost(request->host, options_.host_names)) {
      return Say(id,
                 Refuse({421, "This broker is not \"" + *request->host +
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
          owner->Say(id, answer);
        }
      });
    });
  }

  void Say(Id id, const HttpAnswer& answer) {
    Connection& connection = connections_.at(id);
    connection.phase = Phase::kAnswer;
    connection.text = EncodeHttpAnswer(answer, connection.head, std::time(nullptr));
    connection.cut = clock_.Now() + kAnswerTimes * options_.answer_time;
    Arm(id, options_.answer_time);
    loop_.Modify(connection.fd.get(), EPOLLOUT);
    WriteAnswer(id);
  }

  void WriteAnswer(Id id) {
    Connection& connection = connections_.at(id);
    const std::size_t before = connection.sent;
    while (connection.sent < connection.text.size()) {
      const ssize_t n = ::send(connection.fd.get(), connection.text.data() + connection.sent,
                               connection.text.size() - connection.sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) return End(id);
      connection.sent += static_cast<std::size_t>(n);
    }
    if (connection.sent < connection.text.size()) {
      if (connection.sent > before) Arm(id, std::min(options_.answer_time, connection.cut - clock_.Now()));
      return;
    }
    // A close with bytes unread would take the answer away from the client again.
    connection.text.clear();
    connection.phase = Phase::kFarewell;
    ::shutdown(connection.fd.get(), SHUT_WR);
    Arm(id, options_.answer_time / 4);
    loop_.Modify(connection.fd.get(), EPOLLIN);
    Drain(id);
  }

  void Drain(Id id) {
    Connection& connection = connections_.at(id);
    std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t n = ::recv(connection.fd.get(), buffer.data(), buffer.size(), 0);
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
    connections_.erase(it);
    --listener.connections;
    if (!reserve_) reserve_ = Reserve();
    Resume(listener);
  }

  const Options options_;
  const Handler handler_;
  SystemClock clock_;
  EventLoop loop_;
  UniqueFd reserve_;
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
void HttpResponder::Serve(UniqueFd listener, bool check_host) {
  impl_->Serve(std::move(listener), check_host);
}

}  // namespace nd::ops
