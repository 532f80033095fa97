// SPDX-License-Identifier: Apache-2.0
// The only file that uses the logging library.
#include "daemon/ops/logging.h"

#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>

#include "daemon/ops/journal_log.h"

namespace nd::ops {
namespace {

using spdlog::level::level_enum;

constexpr char kPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %v";

std::optional<level_enum> LevelFromName(std::string_view name) {
  if (name == "trace") return spdlog::level::trace;
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warning") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  if (name == "off") return spdlog::level::off;
  return std::nullopt;
}

// These live until the last thread has logged its last line.
RateLimit& Limits() {
  static RateLimit* limits = new RateLimit;
  return *limits;
}
std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt>& Newest() {
  static auto* sink = new std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt>;
  return *sink;
}
std::atomic<bool> to_journal{false};

int PriorityOf(level_enum level) {
  switch (level) {
    case spdlog::level::err:
    case spdlog::level::critical:
      return 3;
    case spdlog::level::warn:
      return 4;
    case spdlog::level::info:
      return 6;
    default:
      return 7;
  }
}

void Write(level_enum level, const std::string& line, const LogFields& fields = {}) {
  if (!spdlog::should_log(level)) return;
  spdlog::log(level, "{}", line);
  if (to_journal) SendToJournal(PriorityOf(level), line, fields);
}

}  // namespace

bool IsLogLevel(std::string_view level) {
  return LevelFromName(level).has_value();
}

void StartLogging(std::string_view level) {
  Newest() = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(kRememberedLines);
  to_journal = IsJournalStream(std::getenv("JOURNAL_STREAM"), 2);
  if (to_journal) OpenJournal();
  auto logger = std::make_shared<spdlog::logger>("ndbrokerd", Newest());
  if (!to_journal) logger->sinks().push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(kPattern, spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(level);
}

void SetLogLevel(std::string_view level) {
  spdlog::set_level(LevelFromName(level).value_or(spdlog::level::info));
}

std::string LogLevel() {
  for (const char* name : {"trace", "debug", "info", "warning", "error"}) {
    if (LevelFromName(name) == spdlog::get_level()) return name;
  }
  return "off";
}

bool LogsToJournal() {
  return to_journal;
}

std::vector<std::string> NewestLogLines(std::size_t most) {
  if (Newest() == nullptr) return {};
  std::vector<std::string> lines = Newest()->last_formatted(most);
  for (std::string& line : lines) {
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();  // The end of a line on any system.
  }
  return lines;
}

void LogDebug(std::string_view text, const LogFields& fields) {
  if (spdlog::should_log(spdlog::level::debug)) Write(spdlog::level::debug, Printable(text), fields);
}

void LogDebug(const std::function<std::string()>& text, const LogFields& fields) {
  if (spdlog::should_log(spdlog::level::debug)) LogDebug(text(), fields);
}

void LogInfo(std::string_view text, const LogFields& fields) {
  Write(spdlog::level::info, Printable(text), fields);
}

void LogWarning(std::string_view cause, std::string_view text, const LogFields& fields) {
  const std::optional<std::uint64_t> left_out = Limits().Admit(cause, std::chrono::steady_clock::now());
  if (!left_out) return;
  std::string line = std::string(cause) + ": " + Printable(text);
  if (*left_out != 0) line += " (" + std::to_string(*left_out) + " more of this kind were not logged)";
  Write(spdlog::level::warn, line, fields);
}

void LogError(std::string_view text) {
  Write(spdlog::level::err, Printable(text));
}

std::string Printable(std::string_view text, std::size_t max) {
  std::string out(text.substr(0, max));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return out;
}

std::optional<std::uint64_t> RateLimit::Admit(std::string_view cause, Time now) {
  std::lock_guard lock(mutex_);
  auto it = buckets_.find(cause);
  if (it == buckets_.end()) it = buckets_.emplace(std::string(cause), Bucket{now, 0, 0}).first;
  Bucket& bucket = it->second;
  if (now - bucket.start >= kPeriod) {
    bucket.start = now;
    bucket.used = 0;
  }
  if (bucket.used == kBurst) {
    ++bucket.left_out;
    return std::nullopt;
  }
  ++bucket.used;
  return std::exchange(bucket.left_out, 0);
}

}  // namespace nd::ops
