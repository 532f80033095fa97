// SPDX-License-Identifier: Apache-2.0
// Many connections between two processes, all on one completion queue per side. Sends pings on one connection
// at a time, in turn, which shows the cost of the idle ones, or on all connections at once.
// ./many_bench [poll|wait|notify] [CONNECTIONS...] prints the median of 5 rounds for each way to wait. With
// the name of a way it measures only that one, one at a time over shared memory.
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

enum class Waiting { kPoll, kWait, kNotify };
constexpr const char* kWays[] = {"poll", "wait", "notify"};
constexpr int kRounds = 5, kPings = 4000, kRingSlots = 1024;

[[noreturn]] void Fail(const char* what, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  _exit(1);
}

class Side {
 public:
  Side(std::vector<HandOff> hand_offs, Waiting waiting) : waiting_(waiting) {
    for (HandOff& hand_off : hand_offs) {
      QpOptions options;
      options.receive_cq = options.initiator_cq = cq_;
      options.receive_depth = options.initiator_depth = 4;
      options.max_receive_sge = options.max_initiator_sge = 1;
      options.context = Tag(pairs_.size());
      pairs_.push_back(device_->CreateQueuePair(options).value());
      Post(pairs_.size() - 1);
      if (Status status = pairs_.back()->Attach(std::move(hand_off)); !status.ok()) Fail("Attach", status);
    }
  }
  // The peer answers on the same connection. With all pings at once, the next ping uses that connection
  // again.
  void Ping(int count, bool all_at_once) {
    const auto pings = static_cast<std::size_t>(count);
    std::size_t sent = 0;
    while (sent < (all_at_once ? std::min(pings, pairs_.size()) : 1)) Send(sent++);
    for (std::size_t answers = 0; answers < pings; ++answers) {
      const std::size_t which = Next();
      Post(which);
      if (sent == pings) continue;
      Send(all_at_once ? which : sent * 7 % pairs_.size());
      ++sent;
    }
  }
  void Answer(int count) {
    for (int i = 0; i < count; ++i) {
      const std::size_t which = Next();
      Post(which);
      Send(which);
    }
  }

 private:
  void Post(std::size_t which) {
    const Sge in = memory_.At(64, 8);
    if (Status status = pairs_[which]->Receive(nullptr, {&in, 1}); !status.ok()) Fail("Receive", status);
  }
  void Send(std::size_t which) {
    const Sge out = memory_.At(0, 8);
    if (Status status = pairs_[which]->Send(nullptr, {&out, 1}, kOpSilentSuccess); !status.ok()) {
      Fail("Send", status);
    }
  }
  std::size_t Next() {
    Completion done;
    while (cq_->Poll({&done, 1}) == 0) {
      if (waiting_ == Waiting::kWait) (void)cq_->Wait(In(kPatience));
      if (waiting_ == Waiting::kNotify) {
        (void)cq_->Notify(NotifyType::kAny);
        pollfd ready{cq_->handle(), POLLIN, 0};
        poll(&ready, 1, 20000);
        cq_->ConsumeNotification();
      }
    }
    if (done.status != StatusCode::kSuccess) Fail("a request", done.status);
    return reinterpret_cast<std::uintptr_t>(done.queue_pair_context);
  }

  End end_;  // Its queue pair has no connection here.
  const std::shared_ptr<Device> device_ = end_.device;
  const std::shared_ptr<CompletionQueue> cq_ = device_->CreateCompletionQueue(8192).value();
  const Waiting waiting_;
  Memory memory_{end_, 128, false};
  std::vector<std::shared_ptr<QueuePair>> pairs_;
};

void Measure(Link link, std::size_t connections, Waiting waiting, bool all_at_once) {
  std::vector<HandOff> active, passive;
  for (std::size_t i = 0; i < connections; ++i) {
    HandOffs both = MakeHandOffs(link);
    active.push_back(std::move(both.active));
    passive.push_back(std::move(both.passive));
  }
  // One time round each ring over shared memory: a ring that is used for the first time costs page faults.
  const int warm_up = link == Link::kShared ? kRingSlots * static_cast<int>(connections) : 0;
  const int all = kPings * (kRounds + 1) + warm_up;  // The first round warms up.
  const pid_t child = fork();
  if (child == 0) {
    active.clear();
    Side side(std::move(passive), waiting);
    side.Answer(all);
    // Its last output must be read before its connections end.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    _exit(0);
  }
  passive.clear();
  Side side(std::move(active), waiting);
  if (warm_up != 0) side.Ping(warm_up, true);
  side.Ping(kPings, all_at_once);
  std::vector<double> micros;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    side.Ping(kPings, all_at_once);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    micros.push_back(took.count() / kPings);
  }
  std::sort(micros.begin(), micros.end());
  std::printf("%-6s %5zu connections, %s, %-6s %9.2f us a round trip (%.2f to %.2f)\n", NameOf(link),
              connections, all_at_once ? "all at once" : "one at a time", kWays[static_cast<int>(waiting)],
              micros[kRounds / 2], micros.front(), micros.back());
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::exit(1);
}

}  // namespace
}  // namespace nd::provider::soft

int main(int argc, char** argv) {
  using namespace nd::provider::soft;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::vector<std::size_t> counts;
  const auto only = std::find(std::begin(kWays), std::end(kWays), std::string_view(argc > 1 ? argv[1] : ""));
  const bool only_one = only != std::end(kWays);
  for (int i = only_one ? 2 : 1; i < argc; ++i) counts.push_back(std::strtoul(argv[i], nullptr, 10));
  if (counts.empty()) counts = {1, 100, 1000};
  if (only_one) {
    const auto waiting = static_cast<Waiting>(only - std::begin(kWays));
    for (const std::size_t count : counts) Measure(Link::kShared, count, waiting, false);
    return 0;
  }
  for (Link link : {Link::kShared, Link::kIwarp}) {
    for (const std::size_t count : counts) {
      for (const bool all_at_once : {false, true}) {
        for (Waiting waiting : {Waiting::kPoll, Waiting::kWait, Waiting::kNotify}) {
          Measure(link, count, waiting, all_at_once);
        }
      }
    }
  }
}
