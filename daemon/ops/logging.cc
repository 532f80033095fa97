// SPDX-License-Identifier: Apache-2.0
// The only file that knows which logging library is used.
#include "daemon/ops/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace nd::ops {
namespace {

std::optional<spdlog::level::level_enum> LevelFromName(std::string_view name) {
  if (name == "trace") return spdlog::level::trace;
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warning") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  if (name == "off") return spdlog::level::off;
  return std::nullopt;
}

RateLimit& Limits() {
  static RateLimit* limits = new RateLimit;  // Lives until the last thread has logged its last line.
  return *limits;
}

}  // namespace

bool IsLogLevel(std::string_view level) {
  return LevelFromName(level).has_value();
}

void StartLogging(std::string_view level) {
  auto logger =
      std::make_shared<spdlog::logger>("ndbrokerd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(level);
}

void SetLogLevel(std::string_view level) {
  spdlog::set_level(LevelFromName(level).value_or(spdlog::level::info));
}

void LogDebug(std::string_view text) {
  if (spdlog::should_log(spdlog::level::debug)) spdlog::debug("{}", Printable(text));
}

void LogInfo(std::string_view text) {
  spdlog::info("{}", Printable(text));
}

void LogWarning(std::string_view cause, std::string_view text) {
  const std::optional<std::uint64_t> left_out = Limits().Admit(cause, std::chrono::steady_clock::now());
  if (!left_out) return;
  if (*left_out == 0) {
    spdlog::warn("{}: {}", cause, Printable(text));
  } else {
    spdlog::warn("{}: {} ({} more of this kind were not logged)", cause, Printable(text), *left_out);
  }
}

void LogError(std::string_view text) {
  spdlog::error("{}", Printable(text));
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
