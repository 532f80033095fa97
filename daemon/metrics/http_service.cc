// SPDX-License-Identifier: Apache-2.0
// The routes, and the rule that requests cannot keep the loop busy.
#include "daemon/metrics/http_service.h"

#include <cerrno>
#include <charconv>
#include <ctime>
#include <deque>

#include "base/os/error_text.h"
#include "base/os/self.h"
#include "base/os/socket.h"
#include "daemon/metrics/json_writer.h"
#include "daemon/metrics/web_page.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/shell/broker_shell.h"

namespace nd::service {
namespace {

// Requests within this time share one picture.
constexpr auto kFresh = std::chrono::milliseconds(100);
constexpr std::size_t kFeedEvents = 200;
constexpr const char* kJson = "application/json; charset=utf-8";
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

// Returns the events for the page, from number `after` on.
std::string EventsJson(const WatchHub& hub, std::uint64_t after) {
  ops::JsonWriter json;
  json.Begin('{').Field("next", hub.published()).Key("items").Begin('[');
  hub.Newest(after, kFeedEvents, [&](std::uint64_t number, const WatchedEvent& event) {
    json.Begin('{').Field("number", number).Field("time", TimeText(event.time)).Field("type", event.type);
    json.Field("object", event.object).Field("message", event.message).End('}');
  });
  return json.End(']').End('}').Take();
}

ops::HttpAnswer Plain(int code, std::string text) {
  return {code, "text/plain; charset=utf-8", std::move(text) + "\n"};
}

}  // namespace

HttpService::HttpService(EventLoop& loop, Observatory& observatory, BrokerShell& shell, const WatchHub& hub,
                         const ops::Pulse& pulse, Options options)
    : loop_(loop),
      observatory_(observatory),
      shell_(shell),
      hub_(hub),
      pulse_(pulse),
      options_(std::move(options)),
      started_unix_(
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()) {}

HttpService::~HttpService() {
  Stop();
}

void HttpService::Start(UniqueFd local) {
  ops::HttpResponder::Options options;
  options.host_names = options_.settings.host_names;
  options.on_accept_error = [this](int error) {
    loop_.Post([this, error] { shell_.doors()[kMetricsSocketName].Fail(error); });
  };
  responder_ = std::make_unique<ops::HttpResponder>(
      std::move(options),
      [this](const ops::HttpRequest& request, Answer answer) { Handle(request, std::move(answer)); });
  responder_->Serve(std::move(local), {.check_host = false, .refuse = options_.refuse_local});
  if (!options_.settings.listen) return;
  const std::string text = options_.settings.listen->ToString();
  UniqueFd tcp = os::ListenTcp(*options_.settings.listen, 64);
  if (!tcp) {
    const int error = errno;
    const bool taken = error == EADDRINUSE;
    ops::LogWarning("metrics", (taken ? text + " is taken by another program"
                                      : "cannot listen on " + text + ": " + os::ErrorText(error)) +
                                   "; metrics and the page are only on " + options_.directory + "/" +
                                   kMetricsSocketName +
                                   " (give another \"listen\" in [metrics], or \"\" for none)");
    return;
  }
  responder_->Serve(std::move(tcp), {.check_host = true, .refuse = nullptr});
}

void HttpService::Join(ops::Pulse& pulse) {
  pulse.Join("http", responder_->Poster());
  pulse.Join("pages", [this](std::function<void()> question) { worker_.Post(std::move(question)); });
}

void HttpService::Stop() {
  responder_.reset();
}

void HttpService::TakePicture(bool live) {
  const std::shared_ptr<const Picture> picture = observatory_.Take(live);
  std::vector<Use> waiting;
  {
    const std::lock_guard lock(mutex_);
    Cache& cache = caches_[live];
    cache.picture = picture;
    cache.taken = std::chrono::steady_clock::now();
    cache.asked = false;
    waiting.swap(cache.waiting);
  }
  for (Use& use : waiting) worker_.Post([use = std::move(use), picture] { use(picture); });
}

void HttpService::With(bool live, Use use) {
  const std::lock_guard lock(mutex_);
  Cache& cache = caches_[live];
  if (cache.picture != nullptr && std::chrono::steady_clock::now() - cache.taken < kFresh) {
    return worker_.Post([use = std::move(use), picture = cache.picture] { use(picture); });
  }
  cache.waiting.push_back(std::move(use));
  if (std::exchange(cache.asked, true)) return;
  loop_.Post([this, live] { TakePicture(live); });
}

ProcessFacts HttpService::Facts() const {
  ProcessFacts facts;
  facts.version = options_.version;
  facts.started_unix = started_unix_;
  facts.cpu_seconds = os::ProcessorSeconds();
  facts.fd_limit = ops::FdLimit();
  facts.open_fds = ops::OpenFds();
  if (facts.open_fds == 0) facts.open_fds = facts.fd_limit;  // No descriptor was left to count them with.
  facts.threads = pulse_.Members();
  facts.resident_bytes = ops::ResidentBytes();
  return facts;
}

void HttpService::Livez(const Answer& answer) {
  const ops::Pulse::Names stale = pulse_.Stale();
  if (stale.empty()) return answer(Plain(200, "Every thread answers."));
  std::string names;
  for (const std::string& name : stale) names += (names.empty() ? "" : ", ") + name;
  answer(Plain(503, "These threads do not answer: " + names + "."));
}

void HttpService::Readyz(Answer answer) {
  loop_.Post([this, answer = std::move(answer)] {
    Picture facts;
    facts.adapters = shell_.core().Adapters();
    facts.draining = shell_.core().draining();
    const std::string why_not = facts.NotReady();
    answer(why_not.empty() ? Plain(200, "Ready.") : Plain(503, why_not));
  });
}

void HttpService::Handle(const ops::HttpRequest& request, Answer answer) {
  const std::string& path = request.path;
  if (path == "/metrics") {
    const std::uint32_t most = options_.settings.per_connection;
    return With(most > 0, [this, most, answer = std::move(answer)](const auto& picture) {
      answer({200, kMetricsText, MetricsPage(*picture, Facts(), most)});
    });
  }
  if (path == "/livez") return Livez(answer);
  if (path == "/readyz") return Readyz(std::move(answer));
  if (path == "/api/status") {
    return With(false, [this, answer = std::move(answer)](const auto& picture) {
      const double uptime = std::chrono::duration<double>(picture->at - options_.started).count();
      answer({200, kJson, StatusJson(*picture, Facts(), uptime)});
    });
  }
  if (path == "/api/applications") {
    return With(false, [answer = std::move(answer)](const auto& picture) {
      answer({200, kJson, ApplicationsJson(*picture)});
    });
  }
  if (path == "/api/connections") {
    return With(true, [request, answer = std::move(answer)](const auto& picture) {
      const Result<std::string> json = ConnectionsJson(*picture, request);
      answer(json.ok() ? ops::HttpAnswer{200, kJson, json.value()} : Plain(400, json.status().message()));
    });
  }
  if (path == "/api/events") {
    std::uint64_t after = 0;
    const std::string_view text = request.Query("after").value_or("0");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), after);
    if (error != std::errc() || end != text.data() + text.size()) {
      return answer(Plain(400, "\"after\" must be a number."));
    }
    return loop_.Post([this, after, answer = std::move(answer)] {
      answer({200, kJson, EventsJson(hub_, after)});
    });
  }
  for (const ops::WebFile& file : ops::WebFiles()) {
    if (path == file.path) return answer({200, file.type, std::string(file.content)});
  }
  answer(Plain(404, "There is no " + ops::Printable(path, 200) +
                        " here; there are / (the page), /metrics, /livez and /readyz."));
}

}  // namespace nd::service
