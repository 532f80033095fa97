// SPDX-License-Identifier: Apache-2.0
// The HTTP interface of the broker: /metrics, /livez, /readyz, the web page and its data.
//
// Made and destroyed by the thread that starts and stops the broker, destroyed after the loop has ended.
// Start and Stop are called in between.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/locate.h"
#include "daemon/config.h"
#include "daemon/metrics/http_responder.h"
#include "daemon/metrics/observatory.h"
#include "daemon/metrics/web_api.h"
#include "daemon/ops/pulse.h"
#include "daemon/service/worker.h"
#include "daemon/shell/watch_hub.h"

namespace nd::service {

class HttpService {
 public:
  struct Options {
    MetricsSettings settings;
    std::string version, directory;
    Time started{};  // By the loop's clock.
    // Returns the reason to refuse this connection to the local socket; empty to serve it. On the thread of
    // the responder.
    std::function<std::string(int fd)> refuse_local;
  };
  // The arguments outlive this.
  HttpService(EventLoop& loop, Observatory& observatory, BrokerShell& shell, const WatchHub& hub,
              const ops::Pulse& pulse, Options options);
  ~HttpService();

  // `local` is the listening Unix socket. A TCP address that is in use only causes a warning.
  void Start(UniqueFd local);
  // Adds the threads of this class to the liveness check; after Start().
  void Join(ops::Pulse& pulse);
  // No request reaches the loop afterwards.
  void Stop();

 private:
  using Answer = ops::HttpResponder::Answer;
  using Use = std::function<void(const std::shared_ptr<const Picture>&)>;

  void Handle(const ops::HttpRequest& request, Answer answer);
  // Calls `use` on the worker with a recent picture. Concurrent requests share it.
  void With(bool live, Use use);
  void TakePicture(bool live);
  void Livez(const Answer& answer);
  void Readyz(Answer answer);
  ProcessFacts Facts() const;

  EventLoop& loop_;
  Observatory& observatory_;
  BrokerShell& shell_;
  const WatchHub& hub_;
  const ops::Pulse& pulse_;
  const Options options_;
  const double started_unix_;
  Worker worker_{"nd-pages"};
  struct Cache {
    std::shared_ptr<const Picture> picture;
    std::chrono::steady_clock::time_point taken;
    bool asked = false;
    std::vector<Use> waiting;
  };
  std::mutex mutex_;
  std::array<Cache, 2> caches_;  // [0] without live connections, [1] with them.
  std::unique_ptr<ops::HttpResponder> responder_;
};

}  // namespace nd::service
