// SPDX-License-Identifier: Apache-2.0
// The time from the SIGKILL of an application until its broker has none of its objects, and until its peer
// has learned of the end of every connection.
#include <signal.h>

#include "tests/reliability/apps.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

struct Times {
  double reclaimed = -1, told = -1;
};

Times KillWith(std::size_t connections, bool local) {
  const Place place;
  testing::Daemon near(BrokerAt(2)), far(BrokerAt(3));
  if (!near.Start() || !far.Start()) Die("the brokers do not start");
  testing::Daemon& owner = local ? near : far;
  const std::string service = "127.0.0.2:7000", count = std::to_string(connections);
  App echo(place.path(), "echo", {"--echo", near.directory(), service, count});
  if (echo.Await("listening").empty()) Die("the peer does not listen");
  App client(place.path(), "client", {"--client", owner.directory(), service, count, "100000"});
  if (client.Await("ready", 1, seconds(300)).empty()) Die("the connections are not made");
  const std::size_t others = local ? 1 : 0;  // Sessions that stay.
  const double killed = NowMs();
  ::kill(client.process().pid(), SIGKILL);
  Times times;
  testing::Eventually(
      [&] {
        if (owner.Admin("ListSessions").Count("items") == others) times.reclaimed = NowMs() - killed;
        return times.reclaimed > 0;
      },
      seconds(30));
  const std::string gone = echo.Await("gone ", 1, seconds(30));
  if (!gone.empty()) times.told = std::strtod(gone.c_str() + gone.rfind(' '), nullptr) - killed;
  return times;
}

}  // namespace

int MeasureReclaim(const Scale& scale) {
  bool reclaimed = true, told = true;
  std::string reclaims, tells;
  for (const bool local : {true, false}) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, scale.connections}) {
      Times times = KillWith(n, local);
      // The shortest of three: a neighbour on the machine delays a time of milliseconds, and nothing shortens
      // it.
      for (int again = 0; again < 2 && n == 1; ++again) {
        const Times more = KillWith(n, local);
        times.reclaimed = std::min(times.reclaimed, more.reclaimed);
        times.told = std::min(times.told, more.told);
      }
      const double bound = n == 1 ? 5 : 20 + 0.05 * static_cast<double>(n);
      reclaimed &= times.reclaimed > 0 && times.reclaimed <= bound;
      told &= times.told > 0 && times.told <= bound + 1;
      const char* separator = reclaims.empty() ? "" : "; ";
      const char* name = local ? "shared memory" : "iWARP";
      reclaims += Format("%s%s n=%zu %.1f ms (bound %.0f)", separator, name, n, times.reclaimed, bound);
      tells += Format("%s%s n=%zu %.1f ms", separator, name, n, times.told);
    }
  }
  Row(6, reclaimed, reclaims);
  Row(7, told, tells);
  return 0;
}

}  // namespace nd::reliability
