// SPDX-License-Identifier: Apache-2.0
// A broker whose table of descriptors is full, and clients that do not receive the descriptors which the
// broker gives them.
#include <nd/nd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "tests/crash/hostile/raw_lane.h"
#include "tests/reliability/apps.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

constexpr uid_t kSilent = 65534;

Adapter OpenAt(const testing::Daemon& broker) {
  OpenOptions options;
  options.broker = broker.directory();
  options.application = "honest";
  return Must(Adapter::Open(options));
}

// No number below it is free, so that with this limit the process gets no further descriptor.
rlim_t LowestFreeDescriptor(pid_t process) {
  std::set<int> used;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    used.insert(std::stoi(entry.path().filename().string()));
  }
  int free = 0;
  while (used.contains(free)) ++free;
  return static_cast<rlim_t>(free);
}

// How long a new client waits for its session after the table has room again, and how many operations of an
// earlier one fail meanwhile.
void MeasureFullTable(const Scale& scale) {
  testing::Daemon broker(BrokerAt(2));
  if (!broker.Start()) Die("the broker does not start: " + broker.log());
  Adapter honest = OpenAt(broker);
  const int rounds = std::max(10, scale.rounds);
  std::vector<double> waits;
  std::size_t operations = 0, failed = 0, served = 0;
  for (int round = 0; round < rounds; ++round) {
    rlimit enough{};
    if (::prlimit(broker.pid(), RLIMIT_NOFILE, nullptr, &enough) != 0) Die("prlimit");
    const rlimit full{LowestFreeDescriptor(broker.pid()), enough.rlim_max};
    if (::prlimit(broker.pid(), RLIMIT_NOFILE, &full, nullptr) != 0) Die("prlimit");
    for (const auto until = Clock::now() + milliseconds(120); Clock::now() < until; ++operations) {
      const hostile::RawLane early(broker.directory(), false);
      Result<Connector> connector = honest.CreateConnector();
      failed += connector.ok() ? 0 : 1;
    }
    if (::prlimit(broker.pid(), RLIMIT_NOFILE, &enough, nullptr) != 0) Die("prlimit");
    const auto room = Clock::now();
    while (Clock::now() - room < seconds(10)) {
      if (hostile::RawLane(broker.directory()).adapter() == 0) continue;
      ++served;
      break;
    }
    waits.push_back(Milliseconds(Clock::now() - room));
  }
  const double most = Percentile(waits, 1);
  Row(16, most <= 250 && failed == 0 && served == static_cast<std::size_t>(rounds),
      Format("%d times: a new client has its session %.0f ms after there is room in the median, %.0f ms at "
             "most; "
             "%zu of %zu operations of an earlier session failed meanwhile",
             rounds, Percentile(waits, 0.5), most, failed, operations));
}

// An object that comes with a descriptor, beside 200 clients that asked for such and acknowledge none.
void MeasureSilentClients(const Scale& scale) {
  constexpr std::size_t kClients = 200;
  testing::Daemon broker(BrokerAt(2));
  if (!broker.Start()) Die("the broker does not start: " + broker.log());
  const Place place;
  Adapter honest = OpenAt(broker);
  CompletionQueue queue = Must(honest.CreateCompletionQueue(8));
  const std::size_t count = std::max<std::size_t>(500, scale.connections / 10);
  std::size_t failed = 0;
  const auto measure = [&] {
    std::vector<double> took;
    for (std::size_t i = 0; i < count; ++i) {
      const auto began = Clock::now();
      Result<QueuePair> pair = honest.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue});
      took.push_back(Milliseconds(Clock::now() - began));
      failed += pair.ok() ? 0 : 1;
    }
    return took;
  };
  const std::vector<double> alone = measure();
  App silent(place.path(), "silent", {"--silent", broker.directory(), std::to_string(kClients)}, kSilent);
  if (silent.Await("silent").empty()) Die("the silent clients do not get their sessions");
  const std::vector<double> beside = measure();
  const double p99 = Percentile(beside, 0.99);
  // The silent clients share the processors with the honest one, so that a p99 above the limit is no proof.
  Row(17,
      failed != 0 ? Verdict::kMissed
      : p99 <= 5  ? Verdict::kMet
                  : Verdict::kUnclear,
      Format("%zu queue pairs beside %zu silent clients: p50 %.2f ms, p99 %.2f ms, %zu failed; alone p50 "
             "%.2f ms, "
             "p99 %.2f ms",
             count, kClients, Percentile(beside, 0.5), p99, failed, Percentile(alone, 0.5),
             Percentile(alone, 0.99)));
}

}  // namespace

// The clients go on to ask, and read no answer. A session that the broker has ended is opened again.
int RunSilent(const std::vector<std::string>& arguments) {
  std::vector<std::unique_ptr<hostile::RawLane>> lanes(std::stoul(arguments[1]));
  for (int pass = 0;; ++pass) {
    for (auto& lane : lanes) {
      hostile::pb::ClientMessage ask;
      ask.mutable_create_queue_pair()->set_receive_queue_depth(1);
      ask.mutable_create_queue_pair()->set_initiator_queue_depth(1);
      if (lane != nullptr) ask.mutable_create_queue_pair()->set_adapter(lane->adapter());
      if (lane != nullptr && lane->Send(ask, false)) continue;
      lane = std::make_unique<hostile::RawLane>(arguments[0]);
      if (pass == 0 && lane->adapter() == 0) return 1;
    }
    if (pass == 1) std::puts("silent");
    std::fflush(stdout);
    std::this_thread::sleep_for(milliseconds(100));
  }
}

int MeasureDescriptors(const Scale& scale) {
  MeasureFullTable(scale);
  MeasureSilentClients(scale);
  return 0;
}

}  // namespace nd::reliability
