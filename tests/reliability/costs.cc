// SPDX-License-Identifier: Apache-2.0
// The cost of single parts of the product, in this process and one client: the hand-over of descriptors, a
// segment of shared memory; and the randomness of STags.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/event_loop.h"
#include "base/fd_lane.h"
#include "base/memfd.h"
#include "daemon/service/client_lane.h"
#include "provider/hand_off.h"
#include "provider/soft/qp/token_table.h"
#include "provider/soft/segment.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

constexpr std::size_t kDescriptors = 4;

// The client of a lane: receives the descriptors, closes them and acknowledges.
[[noreturn]] void Acknowledge(int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::array<std::byte, 256> record;
  for (provider::AckRecord ack;;) {
    Result<FdMessage> got = ReceiveWithFds(socket, record, true);
    if (!got.ok() || got->fds.size() != kDescriptors) ::_exit(0);
    std::memcpy(&ack.id, record.data(), sizeof ack.id);
    got->fds.clear();
    if (!SendWithFds(socket, std::as_bytes(std::span(&ack, 1)), {}).ok()) ::_exit(0);
  }
}

// Milliseconds of each hand-over, from Lane::Send until the loop has the acknowledgement.
std::vector<double> HandOver(std::size_t count) {
  UniqueFd near, far;
  Must(MakeSeqpacketPair(&near, &far));
  const pid_t client = ::fork();
  if (client == 0) {
    near.reset();
    ::fcntl(far.get(), F_SETFL, 0);  // The client waits in its receive.
    Acknowledge(far.get());
  }
  far.reset();
  SystemClock clock;
  EventLoop loop(clock);
  service::InFlight in_flight(4096);
  service::Peer peer;
  peer.pid = static_cast<std::uint32_t>(client);
  std::string ended;
  service::ClientLane::Callbacks callbacks;
  callbacks.room = [] {};
  callbacks.ended = [&ended](const Status& why) { ended = why.ToString(); };
  service::ClientLane lane(loop, std::move(near), peer, std::move(callbacks));
  if (!lane.Open()) Die("the lane does not open");
  std::vector<double> times;
  for (std::uint64_t id = 1; id <= count; ++id) {
    std::array<int, kDescriptors> fds;
    for (int& fd : fds) fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const auto began = Clock::now();
    service::InFlight::Charge charge(in_flight, 0, kDescriptors);
    Must(lane.Send(id, std::as_bytes(std::span(&id, 1)), fds, charge));
    while (lane.unacknowledged() > 0 && ended.empty()) loop.RunOnce(seconds(1));
    times.push_back(Milliseconds(Clock::now() - began));
    for (const int fd : fds) ::close(fd);
    if (!ended.empty()) Die("the lane ended: " + ended);
  }
  lane.Close();
  ::kill(client, SIGKILL);
  ::waitpid(client, nullptr, 0);
  return times;
}

void Touch(std::byte* bytes) {
  for (std::size_t at = 0; at < provider::soft::kSegmentSize; at += 4096)
    reinterpret_cast<volatile std::byte*>(bytes)[at] = std::byte{1};
}

// Milliseconds that the kernel needs to make, map and clear the same amount of memory without the product.
std::vector<double> MakeMemory(std::size_t count) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const auto began = Clock::now();
    const UniqueFd memory(::memfd_create("nd-reliability", MFD_CLOEXEC));
    if (::ftruncate(memory.get(), provider::soft::kSegmentSize) != 0) Die("no memory");
    void* mapped =
        ::mmap(nullptr, provider::soft::kSegmentSize, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (mapped == MAP_FAILED) Die("no memory");
    Touch(static_cast<std::byte*>(mapped));
    times.push_back(Milliseconds(Clock::now() - began));
    ::munmap(mapped, provider::soft::kSegmentSize);
  }
  return times;
}

// Milliseconds in which a segment is made, sealed, mapped and touched by its first user.
std::vector<double> MakeSegments(std::size_t count) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const auto began = Clock::now();
    const UniqueFd segment = Must(CreateSealedMemfd("nd-reliability", provider::soft::kSegmentSize));
    const Mapping mapping = Must(Mapping::Map(segment.get(), provider::soft::kSegmentSize, true));
    Touch(mapping.data());
    times.push_back(Milliseconds(Clock::now() - began));
  }
  return times;
}

// The Renyi entropy of order 2 in bits, from the number of equal pairs of `values`.
double CollisionEntropy(std::vector<std::uint32_t> values) {
  std::sort(values.begin(), values.end());
  double pairs = 0;
  for (std::size_t begin = 0, end; begin < values.size(); begin = end) {
    for (end = begin + 1; end < values.size() && values[end] == values[begin];) ++end;
    const auto equal = static_cast<double>(end - begin);
    pairs += equal * (equal - 1) / 2;
  }
  const auto n = static_cast<double>(values.size());
  return std::log2(n * (n - 1) / 2 / std::max(pairs, 1.0));
}

}  // namespace

int MeasureCosts(const Scale& scale) {
  const std::size_t count = std::max<std::size_t>(2000, scale.connections);
  const auto began = Clock::now();
  const std::vector<double> hand_overs = HandOver(count);
  const double rate = static_cast<double>(count) / Milliseconds(Clock::now() - began) * 1000;
  const double p50 = 1000 * Percentile(hand_overs, 0.5), p99 = 1000 * Percentile(hand_overs, 0.99);
  Row(13, p50 <= 50 && p99 <= 300,
      Format("%zu hand-overs of four descriptors: p50 %.0f us, p99 %.0f us, %.0f a second", count, p50, p99,
             rate));
  const double segment = 1000 * Percentile(MakeSegments(count / 2), 0.5);
  const double memory = 1000 * Percentile(MakeMemory(count / 2), 0.5);
  // When the kernel alone needs as long, the time shows nothing about the product.
  Row(14,
      segment <= 150 ? Verdict::kMet
      : memory > 100 ? Verdict::kUnclear
                     : Verdict::kMissed,
      Format("%zu segments of %zu KiB, mapped and touched: p50 %.0f us, of which the kernel's memory %.0f us",
             count / 2, provider::soft::kSegmentSize / 1024, segment, memory));
  return 0;
}

int MeasureStags(const Scale& scale) {
  const std::size_t count = scale.connections >= 10'000 ? 10'000'000 : 2'000'000;
  const auto table = Must(provider::soft::TokenTable::Create());
  std::vector<std::uint32_t> stags(count), steps(count - 1), flips(count - 1);
  for (std::uint32_t& stag : stags) {
    stag = Must(table->Insert({}));
    table->Remove(stag);
  }
  for (std::size_t i = 0; i + 1 < count; ++i) {
    steps[i] = stags[i + 1] - stags[i];
    flips[i] = stags[i + 1] ^ stags[i];
  }
  const double values = CollisionEntropy(stags), differences = CollisionEntropy(std::move(steps)),
               changes = CollisionEntropy(std::move(flips));
  double bias = 0;
  for (int bit = 0; bit < 32; ++bit) {
    double ones = 0;
    for (const std::uint32_t stag : stags) ones += stag >> bit & 1;
    bias = std::max(bias, std::abs(ones / static_cast<double>(count) - 0.5));
  }
  Row(20, std::min({values, differences, changes}) >= 30 && bias < 0.002,
      Format("%zu STags, one after another: collision entropy %.1f bits, of differences %.1f, of changed "
             "bits %.1f (32 "
             "would be ideal); no bit more than %.2f %% off one half",
             count, values, differences, changes, 100 * bias));
  return 0;
}

}  // namespace nd::reliability
