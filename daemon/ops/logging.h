// SPDX-License-Identifier: Apache-2.0
// The log of the broker: one line for each failure, with a rate limit.
//
// Lines go to the journal with fields (docs/configuration.md) when stderr is the stream of the journal,
// otherwise to stderr. The newest lines are kept in memory. Any thread. Control characters are replaced, so
// that no text can forge a line.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace nd::ops {

// Returns true for "trace", "debug", "info", "warning", "error" and "off".
bool IsLogLevel(std::string_view level);
// Starts logging. Before it, lines go to stderr unchanged.
void StartLogging(std::string_view level);
void SetLogLevel(std::string_view level);
std::string LogLevel();
bool LogsToJournal();
// Returns at most `most` of the last kRememberedLines lines, oldest first, as they are on stderr.
inline constexpr std::size_t kRememberedLines = 2000;
std::vector<std::string> NewestLogLines(std::size_t most = kRememberedLines);

// The subject of a line for the journal: "connection.failed" and the id that ndctl shows.
struct LogFields {
  std::string_view event{}, object{};
};

void LogDebug(std::string_view text, const LogFields& fields = {});
// The same with a text that is made only if it is logged.
void LogDebug(const std::function<std::string()>& text, const LogFields& fields);
void LogInfo(std::string_view text, const LogFields& fields = {});
// Logs at most kBurst lines for each cause and period; the next line has the number of suppressed ones.
// `cause` is a constant of the program, never text of a client.
void LogWarning(std::string_view cause, std::string_view text, const LogFields& fields = {});
void LogError(std::string_view text);

// Returns the text with everything outside printable ASCII replaced by '?', cut at `max`.
std::string Printable(std::string_view text, std::size_t max = 512);

// The rate limit of LogWarning.
class RateLimit {
 public:
  static constexpr std::uint32_t kBurst = 10;
  static constexpr Duration kPeriod = std::chrono::seconds(10);

  // Returns nothing to suppress this line, otherwise the number of suppressed lines since the last one.
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
