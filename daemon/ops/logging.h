// SPDX-License-Identifier: Apache-2.0
// The broker's log: one line per failure, and never more lines than somebody can read.
//
// To the journal with fields of its own (docs/configuration.md) when stderr is the journal's, otherwise as
// lines to stderr. The newest lines are remembered. Any thread. Control characters in a text are replaced, so
// that nobody can forge a line.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace nd::ops {

// "trace", "debug", "info", "warning", "error", "off".
bool IsLogLevel(std::string_view level);
// Starts logging. Before it, lines go to stderr as they are.
void StartLogging(std::string_view level);
void SetLogLevel(std::string_view level);
std::string LogLevel();
bool LogsToJournal();
// At most `most` of the last kRememberedLines lines, oldest first, as they would be on stderr.
inline constexpr std::size_t kRememberedLines = 2000;
std::vector<std::string> NewestLogLines(std::size_t most = kRememberedLines);

// What a line is about, for the journal: "connection.failed" and the id that ndctl shows.
struct LogFields {
  std::string_view event{}, object{};
};

void LogDebug(std::string_view text, const LogFields& fields = {});
void LogInfo(std::string_view text, const LogFields& fields = {});
// At most kBurst lines per cause and period; the next one says how many were left out. `cause` is a constant
// of the program, never something that a client said.
void LogWarning(std::string_view cause, std::string_view text, const LogFields& fields = {});
void LogError(std::string_view text);

// The text with everything outside printable ASCII replaced by '?', cut at `max`.
std::string Printable(std::string_view text, std::size_t max = 512);

// The counting behind LogWarning.
class RateLimit {
 public:
  static constexpr std::uint32_t kBurst = 10;
  static constexpr Duration kPeriod = std::chrono::seconds(10);

  // Empty: leave this one out. Otherwise how many were left out since the last one let through.
  std::optional<std::uint64_t> Admit(std::string_view cause, Time now);

 private:
  struct Bucket {
    Time start{};
    std::uint32_t used = 0;
    std::uint64_t left_out = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace nd::ops
