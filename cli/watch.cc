// SPDX-License-Identifier: Apache-2.0
// Redraws without flicker: lines are overwritten, never cleared first.
#include "cli/watch.h"

#include <chrono>
#include <sstream>
#include <thread>

#include "cli/pager.h"
#include "cli/quantity.h"

namespace nd::cli {
namespace {

constexpr double kShortest = 0.1;

// Returns `text` as one screen. The last line tells how many lines did not fit.
std::string Frame(const std::string& title, const std::string& text, TerminalSize size) {
  std::string out = "\033[?7l\033[H" + title + "\033[K\n\033[K\n";  // Long lines are cut, not wrapped.
  std::istringstream lines(text);
  std::size_t shown = 2, hidden = 0;
  for (std::string line; std::getline(lines, line);) {
    if (shown + 2 > size.rows) {
      ++hidden;
      continue;
    }
    out += line + "\033[K\n";
    ++shown;
  }
  if (hidden > 0) out += "... and " + std::to_string(hidden) + " lines more\033[K";
  return out + "\033[J\033[?7h";
}

std::string Title(const Context& context, const WatchOptions& options) {
  return context.command_line + "   every " + options.interval + " s   " + TimeAgo(0);
}

}  // namespace

void AddWatchOptions(Command verb, WatchOptions* options) {
  verb.AddFlag("-w{2},--watch{2}", &options->interval, "Look again every S seconds: --watch=S (2)");
  verb.Add("--count", &options->count, "With --watch: end after this many looks (0: never)");
}

Failure CheckWatch(const Context& context, const WatchOptions& options, double* seconds) {
  if (Failure failure = ParseQuantity(options.interval, Unit::kSeconds, seconds)) return failure;
  if (*seconds < kShortest || *seconds > 86400) {
    return Error{
        Exit::kUsage, "--watch=" + options.interval + " is not between 0.1 seconds and a day", {}, {}};
  }
  if (context.output.format != Format::kCsv && context.output.format != Format::kName) return std::nullopt;
  return Error{
      Exit::kUsage, "--watch cannot write this output format", "use table, wide, json, jsonl or yaml", {}};
}

Failure Watch(Context& context, const WatchOptions& options, const std::function<Failure(Snapshot*)>& look) {
  double seconds = 0;
  if (Failure failure = CheckWatch(context, options, &seconds)) return failure;
  context.output.live = true;
  const auto interval =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  auto next = std::chrono::steady_clock::now();
  Table before;
  const bool terminal = SizeOfTerminal().rows > 0 && !context.output.machine();
  if (terminal) {
    if (Failure failure = context.Write("\033[2J")) return failure;
  }
  for (std::uint64_t looks = 0; options.count == 0 || looks < options.count; ++looks) {
    if (looks > 0) std::this_thread::sleep_until(next += interval);
    Snapshot snapshot;
    if (Failure failure = look(&snapshot)) return failure;
    std::string text;
    if (context.output.machine()) {
      snapshot.document.Set("time", TimeAgo(0));
      text = context.output.format == Format::kYaml ? "---\n" + snapshot.document.ToYaml()
                                                    : snapshot.document.ToJson(0) + "\n";
    } else {
      Table drawn = snapshot.table;
      if (looks > 0) drawn.MarkChanges(before);
      before = std::move(snapshot.table);
      text = drawn.Format(snapshot.headers && context.output.headers, context.output.color);
      if (terminal) {
        text = Frame(Title(context, options), text, SizeOfTerminal());
      } else if (looks > 0) {
        text = "\n" + text;
      }
    }
    if (Failure failure = context.Write(text)) return failure;
  }
  return std::nullopt;
}

}  // namespace nd::cli
