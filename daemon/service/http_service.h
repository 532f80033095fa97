// SPDX-License-Identifier: Apache-2.0
// What the broker tells over HTTP: /metrics, /livez, /readyz, its own page and the page's data.
//
// Made and destroyed by the thread that starts and stops the broker, while the loop does not run or after it;
// Start and Stop in between.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "daemon/config.h"
#include "daemon/ops/http_responder.h"
#include "daemon/service/observatory.h"
#include "daemon/service/watch_hub.h"
#include "daemon/service/web_api.h"
#include "daemon/service/worker.h"

namespace nd::service {

inline constexpr const char* kMetricsSocketName = "metrics.sock";

class HttpService {
 public:
  struct Options {
    MetricsSettings settings;
    std::string version, directory;
  };
  HttpService(EventLoop& loop, Observatory& observatory, BrokerShell& shell, const WatchHub& hub,
              Options options);
  ~HttpService();

  // `local` is the listening Unix socket. A TCP address that is taken is warned of, and everything else
  // works.
  void Start(UniqueFd local);
  // No request reaches the loop any more.
  void Stop();

 private:
  using Answer = ops::HttpResponder::Answer;
  using Use = std::function<void(const std::shared_ptr<const Picture>&)>;

  void Handle(const ops::HttpRequest& request, Answer answer);
  // Calls `use` on the worker with a picture that is at most a moment old, however many ask.
  void With(bool live, Use use);
  void TakePicture(bool live);
  void Livez(Answer answer);
  void Readyz(Answer answer);
  ProcessFacts Facts() const;

  EventLoop& loop_;
  Observatory& observatory_;
  BrokerShell& shell_;
  const WatchHub& hub_;
  const Options options_;
  const double started_unix_;
  const Time started_;
  Worker worker_;
  struct Cache {
    std::shared_ptr<const Picture> picture;
    std::chrono::steady_clock::time_point taken;
    bool asked = false;
    std::vector<Use> waiting;
  };
  std::mutex mutex_;
  std::array<Cache, 2> caches_;  // Without and with live connections.
  std::unique_ptr<ops::HttpResponder> responder_;
};

}  // namespace nd::service
