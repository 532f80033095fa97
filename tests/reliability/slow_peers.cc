// SPDX-License-Identifier: Apache-2.0
// Peers that open a connection to the broker and never finish their request, beside an honest tenant.
#include <sys/socket.h>

#include <cerrno>
#include <thread>

#include "tests/crash/hostile/honest.h"
#include "tests/crash/hostile/raw_peer.h"
#include "tests/reliability/apps.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

// 127.1.1.1 to 127.16.1.1.
std::uint32_t Source(std::size_t number) {
  return static_cast<std::uint32_t>((1 + number % 16) << 16 | 0x101);
}
bool Gone(int fd) {
  char byte;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

struct Measurement {
  double idle = 0, p99 = 0;  // Milliseconds of a connection of the honest tenant.
  std::uint64_t held = 0;    // The most requests that the broker waited for at once.
  double bytes = 0;          // Resident memory of the broker for each of them.
  std::size_t failures = 0;
};

// `room`: the broker waits for that many requests at once.
Measurement Beside(std::size_t peers, std::size_t room) {
  constexpr int kConnects = 400;
  testing::DaemonOptions options = BrokerAt(3);
  options.sections["limits"] = "half-open-connections = " + std::to_string(room);
  testing::Daemon near(BrokerAt(2)), far(std::move(options));
  if (!near.Start() || !far.Start()) Die("the brokers do not start: " + far.log());
  hostile::Honest honest({near.directory(), 2}, {far.directory(), 3}, false);
  honest.Measure(20);
  Measurement out;
  out.idle = hostile::Percentile(honest.Measure(kConnects).connect, 0.99) / 1000;
  const std::uint64_t memory = ResidentBytes(far.pid());
  const Place place;
  const App slow(place.path(), "slow", {"--slow", "3", std::to_string(peers)});
  if (slow.Await("slow").empty()) Die("the slow peers do not begin");
  const std::uint64_t wanted = std::min<std::uint64_t>(peers, room) * 9 / 10;
  testing::Eventually([&] { return (out.held = std::max(out.held, far.Count().handshakes)) >= wanted; });
  if (out.held > 0) {
    const std::uint64_t now = ResidentBytes(far.pid());
    out.bytes = static_cast<double>(now - std::min(now, memory)) / static_cast<double>(out.held);
  }
  const hostile::Measured under = honest.Measure(kConnects);
  out.p99 = hostile::Percentile(under.connect, 0.99) / 1000;
  out.failures = under.failures;
  return out;
}

}  // namespace

int RunSlow(const std::vector<std::string>& arguments) {
  struct Peer {
    UniqueFd fd;
    std::size_t sent = 0;
  };
  const int host = std::stoi(arguments.at(0));
  const hostile::Bytes request = hostile::RequestFrame(9);
  std::vector<Peer> peers(std::stoul(arguments.at(1)));
  for (bool first = true;; first = false) {
    const auto next = Clock::now() + seconds(1);
    for (std::size_t i = 0; i < peers.size(); ++i) {
      Peer& peer = peers[i];
      if (!peer.fd || Gone(peer.fd.get())) peer = {hostile::DialWire(host, Source(i)), 0};
      if (peer.fd && i % 2 == 0 && peer.sent + 1 < request.size())
        static_cast<void>(hostile::SendAll(peer.fd.get(), {request[peer.sent++]}));
    }
    if (first) {
      std::puts("slow");
      std::fflush(stdout);
    }
    std::this_thread::sleep_until(next);
  }
}

int MeasureSlowPeers(const Scale& scale) {
  constexpr double kMostMs = 50, kMostBytes = 2048;
  constexpr std::size_t kDefaultRoom = 4096;
  const std::size_t peers = scale.connections;
  const Measurement usual = Beside(peers, kDefaultRoom), roomy = Beside(peers, 2 * peers);
  const bool safe = usual.failures + roomy.failures == 0 && roomy.held >= peers * 9 / 10;
  const bool small = roomy.bytes <= kMostBytes;
  const bool fast = usual.p99 <= kMostMs && roomy.p99 <= kMostMs;
  // The peers and the tenant share the processors of this host with the broker, so that a longer delay proves
  // nothing.
  Row(11,
      !safe || !small ? Verdict::kMissed
      : fast          ? Verdict::kMet
                      : Verdict::kUnclear,
      Format("%zu peers of 16 networks: p99 %.2f ms, idle %.2f ms, %llu requests waited for at once (the "
             "default bound is %zu); a broker with room for all of them: p99 %.2f ms, idle %.2f ms, %llu at "
             "once, "
             "%.0f bytes each; %zu honest connections failed",
             peers, usual.p99, usual.idle, static_cast<unsigned long long>(usual.held), kDefaultRoom,
             roomy.p99, roomy.idle, static_cast<unsigned long long>(roomy.held), roomy.bytes,
             usual.failures + roomy.failures));
  return 0;
}

}  // namespace nd::reliability
