// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/records.h"

#include <string>
#include <utility>

#include "daemon/ops/logging.h"

namespace nd::service {

Records::Records(const ServicesHost& host) : history_(OpenHistory(host)) {
  if (history_ != nullptr) {
    history_sink_ = std::make_unique<HistorySink>(host.loop.clock(), *history_);
    host.shell.AddRecordSink(history_sink_.get());
    // A disk may be slow; only requests for the history wait for it.
    host.pulse.Join(
        "history", [this](std::function<void()> question) { history_->Post(std::move(question)); }, 30);
  }
  observatory_ = std::make_unique<Observatory>(host.loop, host.shell, history_.get(), admin_tally_);
  host.shell.AddRecordSink(observatory_.get());
}

std::unique_ptr<state::History> Records::OpenHistory(const ServicesHost& host) {
  const HistorySettings& settings = host.options.config.history;
  if (!settings.enabled) return nullptr;
  state::History::Options options;
  options.file = HistoryFile(settings, host.options.directory);
  options.keep = std::chrono::hours(24) * settings.keep_days;
  options.max_rows = settings.max_rows;
  options.tell = [&loop = host.loop, &hub = host.hub](bool good, const std::string& line) {
    good ? ops::LogInfo(line) : ops::LogWarning("history", line);
    loop.Post([&hub, good, line] { hub.Publish(good ? "history.resumed" : "history.trouble", "", line); });
  };
  return std::make_unique<state::History>(std::move(options));
}

}  // namespace nd::service
