// SPDX-License-Identifier: Apache-2.0
// Half of the connections are on one host (shared memory), half come from a second broker (iWARP). The broker
// that all of them use is killed and started again, and every message is checked.
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "tests/reliability/apps.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

constexpr uid_t kThief = 65534;
// The priority of the first thread that the unit gives the broker, where this process may give it.
int NiceOfTheUnit() {
  return ::geteuid() == 0 ? -10 : 0;
}
// The delay after which systemd starts the broker again (target 3 assumes it).
constexpr milliseconds kRestartDelay{50};

double TimeOf(const std::string& line) {
  const std::size_t digit = line.find_first_of("0123456789");
  return digit == std::string::npos ? -1 : std::strtod(line.c_str() + digit, nullptr);
}

// The first time of a line that begins with `start` and is later than `after`; -1 when it does not come.
double AwaitTime(const App& app, const std::string& start, double after) {
  double time = -1;
  testing::Eventually(
      [&] {
        for (const std::string& line : app.Lines()) {
          if (time < 0 && line.starts_with(start) && TimeOf(line) > after) time = TimeOf(line);
        }
        return time > 0;
      },
      seconds(20));
  return time;
}

}  // namespace

int MeasureRestarts(const Scale& scale) {
  const Place place;
  testing::DaemonOptions options = BrokerAt(2);
  options.nice = NiceOfTheUnit();
  testing::Daemon near(std::move(options)), far(BrokerAt(3));
  if (!near.Start() || !far.Start()) Die("the brokers do not start: " + near.log() + far.log());
  const std::size_t half = scale.connections / 2;
  const std::string service = "127.0.0.2:7000", probed = "127.0.0.2:7001", tried = "127.0.0.2:7002";
  App echo(place.path(), "echo", {"--echo", near.directory(), service, std::to_string(2 * half)});
  App probe_echo(place.path(), "probe-echo", {"--echo", near.directory(), probed, "2"});
  App try_echo(place.path(), "try-echo", {"--echo", near.directory(), tried, "1"});
  for (const App* app : {&echo, &probe_echo, &try_echo}) {
    if (app->Await("listening").empty()) Die("an application does not listen");
  }
  const std::string count = std::to_string(half);
  App local(place.path(), "local", {"--client", near.directory(), service, count, "250"});
  App iwarp(place.path(), "iwarp", {"--client", far.directory(), service, count, "250"});
  App local_probe(place.path(), "local-probe", {"--client", near.directory(), probed, "1", "1"});
  App iwarp_probe(place.path(), "iwarp-probe", {"--client", far.directory(), probed, "1", "1"});
  for (const App* app : {&local, &iwarp, &local_probe, &iwarp_probe}) {
    if (app->Await("ready", 1, seconds(300)).empty()) Die("the connections are not made: " + near.log());
  }
  App prober(place.path(), "prober", {"--prober", far.directory(), tried});
  App thief(place.path(), "thief", {"--thief", near.directory(), service}, kThief);
  if (prober.Await("up").empty() || thief.Await("thief ready").empty()) Die("a prober does not start");
  const std::uint64_t resident = ResidentBytes(near.pid());
  const std::uint64_t connections = near.Admin("GetStatus").Number("connections");
  std::this_thread::sleep_for(seconds(3));  // The first phase of the probes: no kill.
  for (App* app : {&local_probe, &iwarp_probe}) app->process().Signal(SIGUSR1);
  std::vector<double> accepts, reattached;
  for (int round = 0; round < scale.rounds; ++round) {
    const double killed = NowMs();
    near.Kill();
    std::this_thread::sleep_for(kRestartDelay);
    near.Launch();
    const double up = AwaitTime(prober, "up ", killed);
    const double back =
        std::max(AwaitTime(echo, "session back ", killed), AwaitTime(local, "session back ", killed));
    if (up < 0 || back < 0) {
      std::string said;
      for (const App* app : {&prober, &try_echo, &echo, &local}) {
        const std::vector<std::string> lines = app->Lines();
        said += "\n  " + (lines.empty() ? std::string("nothing") : lines.back());
      }
      Die(Format("round %d: new connection %.0f, sessions %.0f; last lines:%s", round, up, back,
                 said.c_str()));
    }
    accepts.push_back(up - killed);
    if (!near.AwaitReady()) Die("the broker does not start again: " + near.log());
    // A session is back when each of its connections has its answer. The broker is asked as well, by a call
    // that takes long on a busy host, so that its time counts only if a connection is missing at first.
    const auto complete = [&] { return near.Admin("GetStatus").Number("connections") + 8 >= connections; };
    const bool at_once = complete();
    const bool all = at_once || testing::Eventually(complete, seconds(20));
    reattached.push_back(!all ? -1 : (at_once ? back : NowMs()) - killed);
    std::this_thread::sleep_for(milliseconds(300));
  }
  std::uint64_t lost = 0, wrong = 0, messages = 0;
  for (App* app : {&local, &iwarp}) {
    const std::string line = app->End("client ");
    if (line.empty()) Die("a client does not end");
    lost += static_cast<std::uint64_t>(Field(line, "lost"));
    wrong += static_cast<std::uint64_t>(Field(line, "wrong"));
    messages += static_cast<std::uint64_t>(Field(line, "messages"));
  }
  Row(1, lost == 0 && wrong == 0 && messages > 0,
      Format("%zu connections of each transport, %d kills: %zu lost, %zu lost or reordered messages of %zu",
             half, scale.rounds, static_cast<std::size_t>(lost), static_cast<std::size_t>(wrong),
             static_cast<std::size_t>(messages)));
  double added = 0, noise = 0;
  std::string gaps;
  for (auto [app, name] : {std::pair(&local_probe, "shared memory"), std::pair(&iwarp_probe, "iWARP")}) {
    const std::string line = app->End("client ");
    const double before = Field(line, "p99_9_0"), during = Field(line, "p99_9_1");
    added = std::max(added, during - before);
    noise = std::max(noise, before);
    gaps +=
        Format("%s%s p99.9 %.2f ms without kills, %.2f with", gaps.empty() ? "" : "; ", name, before, during);
  }
  // On a machine that delays processes by as much as the bound, the difference shows nothing.
  Row(2, added > 5 ? Verdict::kMissed : noise > 5 ? Verdict::kUnclear : Verdict::kMet, gaps);
  Row(3, Percentile(accepts, 0.99) <= 250,
      Format("a new connection after %.0f ms in the median, %.0f ms at most, of which %ld ms restart delay%s",
             Percentile(accepts, 0.5), Percentile(accepts, 1), static_cast<long>(kRestartDelay.count()),
             NiceOfTheUnit() < 0 ? "; started with the priority of the unit"
                                 : "; started without the priority of the unit, because this is not root"));
  const bool all_back = Percentile(reattached, 0) > 0;
  Row(4, all_back && Percentile(reattached, 1) <= 2000,
      Format("%s %zu connections known again after %.0f ms in the median, %.0f ms at most",
             all_back ? "all" : "NOT ALL", scale.connections, Percentile(reattached, 0.5),
             Percentile(reattached, 1)));
  const std::string theft = thief.End("theft ");
  const bool stolen = Field(theft, "thefts") != 0;
  Row(19,
      stolen                           ? Verdict::kMissed
      : Field(theft, "tries") < 10'000 ? Verdict::kUnclear
                                       : Verdict::kMet,
      Format("ports: %.0f tries by another user while the broker was killed %d times, %.0f thefts",
             Field(theft, "tries"), scale.rounds, Field(theft, "thefts")));
  const double most = 140.0 * static_cast<double>(scale.connections) / 10'000;
  Row(30, static_cast<double>(resident) / (1 << 20) <= std::max(64.0, most),
      Format("%.0f MiB resident with %zu ends of connections", static_cast<double>(resident) / (1 << 20),
             static_cast<std::size_t>(connections)));
  return 0;
}

}  // namespace nd::reliability
