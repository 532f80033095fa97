// SPDX-License-Identifier: Apache-2.0
// Keeps connections busy while somebody else restarts, kills or upgrades their broker, and says what they
// noticed.
//
// traffic LOCAL REMOTE PEER: LOCAL connections through the broker of $NDBROKER_DIR, REMOTE ones from the
// broker whose directory is PEER to it, all to one listener at 127.0.0.1:7000. Each carries numbered messages
// to and fro. Each time the sessions are lost, a new connection is attempted until the listener accepts
// again. Prints "ready", one line for each loss, and on SIGTERM a summary; exits 1 when a connection was lost
// or a message was wrong.
#include <nd/nd.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kSize = 64;
constexpr auto kPatience = std::chrono::seconds(30);

void Must(const nd::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "traffic: %s\n", status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T Must(nd::Result<T> result) {
  Must(result.status());
  return std::move(result).value();
}
double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Moves the value of a successful result to *out, and returns the status.
template <typename T>
nd::Status Take(nd::Result<T> result, T* out) {
  if (result.ok()) *out = std::move(result).value();
  return result.status();
}

struct End {
  // Fails while the broker is away.
  nd::Status Create(nd::Adapter& adapter, nd::CompletionQueue& queue) {
    nd::Status status = Take(adapter.AllocateBuffer(2 * kSize), &buffer);
    if (status.ok()) status = Take(adapter.Register(buffer, nd::kAllowLocalWrite), &region);
    if (status.ok()) {
      status = Take(adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue, .context = this}),
                    &pair);
    }
    if (status.ok()) status = Take(adapter.CreateConnector(), &connector);
    return status;
  }

  nd::Status Receive() { return pair.Receive(nullptr, std::array{region.Slice(buffer.data(), kSize)}); }
  nd::Status Send(std::uint64_t number) {
    std::array<std::uint64_t, kSize / 8> words;
    words.fill(number);
    std::memcpy(buffer.data() + kSize, words.data(), kSize);
    return pair.Send(nullptr, std::array{region.Slice(buffer.data() + kSize, kSize)},
                     nd::kOpInline | nd::kOpSilentSuccess);
  }
  bool Holds(std::uint64_t number) const {
    std::array<std::uint64_t, kSize / 8> words;
    std::memcpy(words.data(), buffer.data(), kSize);
    return std::ranges::all_of(words, [&](std::uint64_t word) { return word == number; });
  }

  nd::Buffer buffer;
  nd::MemoryRegion region;
  nd::QueuePair pair;
  nd::Connector connector;
  std::uint64_t next = 0;  // The number of the message that this end receives next.
  Clock::time_point last{};
  bool lost = false;
};

nd::Status Establish(nd::Adapter& adapter, End& client, nd::Listener& listener, End& server) {
  const nd::Result<nd::Address> bound = listener.GetLocalAddress();
  if (!bound.ok()) return bound.status();
  const nd::Address& remote = *bound;
  const nd::Result<nd::Address> local = adapter.ResolveAddress(remote);
  if (!local.ok()) return local.status();
  if (nd::Status s = client.connector.Bind(*local); !s.ok()) return s;
  nd::Request connect, accept, incoming;
  if (nd::Status s = client.connector.Connect(client.pair, remote, {}, &connect); !s.pending()) return s;
  if (nd::Status s = listener.GetConnectionRequest(server.connector, &incoming); !s.pending() && !s.ok())
    return s;
  // A refused attempt leaves the listener without a request.
  const auto until = Clock::now() + kPatience;
  while (incoming.GetResult(false).pending()) {
    const nd::Status early = connect.GetResult(false);
    if (!early.pending() || Clock::now() > until) {
      static_cast<void>(listener.Cancel());
      return early.pending() ? nd::Status(nd::StatusCode::kIoTimeout) : early;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (nd::Status s = incoming.GetResult(); !s.ok()) return s;
  if (nd::Status s = server.connector.Accept(server.pair, {}, &accept); !s.pending()) return s;
  if (nd::Status s = connect.GetResult(); !s.ok()) return s;
  if (nd::Status s = client.connector.CompleteConnect(); !s.ok()) return s;
  return accept.GetResult();
}

// All sessions of this program: the number of those that are away, and the time of the loss.
class Sessions {
 public:
  void Watch(nd::Adapter& adapter) {
    adapter.SetSessionCallback([this](bool connected) {
      const std::lock_guard lock(mutex_);
      if (!connected && away_++ == 0) {
        lost_ = Clock::now();
        ++losses_;
      }
      if (connected) --away_;
      changed_.notify_all();
    });
  }
  // Waits for the loss of a session. Returns false when the program ends.
  bool AwaitLoss(const std::atomic<bool>& over, Clock::time_point* lost) {
    std::unique_lock lock(mutex_);
    // The session may be back before this thread runs.
    while (!changed_.wait_for(lock, milliseconds(50), [&] { return losses_ != seen_; })) {
      if (over) return false;
    }
    seen_ = losses_;
    *lost = lost_;
    return true;
  }
  bool AwaitAll() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return away_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int away_ = 0;
  std::uint64_t losses_ = 0, seen_ = 0;
  Clock::time_point lost_{};
};

volatile sig_atomic_t terminated = 0;

// Times in buckets that grow by 2 %, so that a run of hours needs no more memory than one of seconds.
class Gaps {
 public:
  void Add(double milliseconds) {
    ++counts_[Bucket(milliseconds)];
    ++total_;
    max_ = std::max(max_, milliseconds);
  }
  void Add(const Gaps& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    max_ = std::max(max_, other.max_);
  }
  double max() const { return max_; }
  // The upper bound of the bucket below which this part of the times is.
  double Quantile(double part) const {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (static_cast<double>(seen) >= part * static_cast<double>(total_)) {
        return std::min(max_, kLeast * std::pow(kGrowth, static_cast<double>(i + 1)));
      }
    }
    return max_;
  }

 private:
  static constexpr std::size_t kBuckets = 1024;
  static constexpr double kLeast = 0.001, kGrowth = 1.02;
  static std::size_t Bucket(double milliseconds) {
    if (milliseconds <= kLeast) return 0;
    return std::min(kBuckets - 1,
                    static_cast<std::size_t>(std::log(milliseconds / kLeast) / std::log(kGrowth)));
  }
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
  double max_ = 0;
};

struct Report {
  std::uint64_t messages = 0, wrong = 0, lost = 0;
  Gaps gaps;  // Milliseconds between two messages of one end.
};

// Messages to and fro on every connection, until it is told to end.
void MoveData(nd::CompletionQueue& queue, Report* report) {
  std::array<nd::Completion, 64> done;
  while (terminated == 0) {
    const std::size_t count = queue.Poll(done);
    if (count == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      End& end = *static_cast<End*>(done[i].queue_pair_context);
      if (end.lost) continue;
      if (done[i].status != nd::StatusCode::kSuccess) {
        end.lost = true;
        ++report->lost;
        continue;
      }
      const Clock::time_point now = Clock::now();
      if (end.last != Clock::time_point{}) {
        report->gaps.Add(Milliseconds(now - end.last));
      }
      end.last = now;
      ++report->messages;
      if (!end.Holds(end.next)) ++report->wrong;
      // The side that receives even numbers answers with odd ones, and the other way round.
      const std::uint64_t answer = end.next + 1;
      end.next += 2;
      if (!end.Receive().ok() || !end.Send(answer).ok()) {
        end.lost = true;
        ++report->lost;
      }
    }
  }
}

// After each loss: how long until the sessions are back, and until a new connection is made.
void WatchRestarts(Sessions& sessions, const std::atomic<bool>& over, nd::Adapter& client_adapter,
                   nd::Adapter& server_adapter, nd::Listener& listener) {
  Clock::time_point lost;
  nd::CompletionQueue queue = Must(client_adapter.CreateCompletionQueue(16));
  nd::CompletionQueue server_queue = Must(server_adapter.CreateCompletionQueue(16));
  for (int number = 1; sessions.AwaitLoss(over, &lost); ++number) {
    const bool back = sessions.AwaitAll();
    const double back_after = Milliseconds(Clock::now() - lost);
    int refused = 0;
    nd::Status status(nd::StatusCode::kIoTimeout);
    while (back && Clock::now() - lost < kPatience && over == false) {
      // The broker may be away again.
      auto client = std::make_unique<End>(), server = std::make_unique<End>();
      status = client->Create(client_adapter, queue);
      if (status.ok()) status = server->Create(server_adapter, server_queue);
      if (status.ok()) status = Establish(client_adapter, *client, listener, *server);
      if (status.ok()) {
        static_cast<void>(client->connector.Disconnect());
        static_cast<void>(server->connector.Disconnect());
        break;
      }
      ++refused;
      std::this_thread::sleep_for(milliseconds(5));
    }
    std::printf("restart=%d sessions_back_ms=%.1f listener_accepts_ms=%.1f refused=%d status=%s\n", number,
                back ? back_after : -1.0, status.ok() ? Milliseconds(Clock::now() - lost) : -1.0, refused,
                status.ToString().c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: traffic LOCAL REMOTE PEER\n", stderr);
    return 2;
  }
  const int local = std::atoi(argv[1]), remote = std::atoi(argv[2]);
  signal(SIGTERM, [](int) { terminated = 1; });
  nd::Adapter server = Must(nd::Adapter::Open({.application = "traffic-server"}));
  nd::Adapter client = Must(nd::Adapter::Open({.application = "traffic-client"}));
  nd::Adapter far = Must(remote > 0 ? nd::Adapter::Open({.broker = argv[3], .application = "traffic-far"})
                                    : nd::Adapter::Open({.application = "traffic-idle"}));
  const auto most = static_cast<std::uint32_t>(4 * (local + remote) + 16);
  nd::CompletionQueue queue = Must(server.CreateCompletionQueue(most)),
                      client_queue = Must(client.CreateCompletionQueue(most)),
                      far_queue = Must(far.CreateCompletionQueue(most));
  nd::Listener listener = Must(server.CreateListener());
  Must(listener.Bind(nd::Address::Parse("127.0.0.1:7000").value()));
  Must(listener.Listen());
  std::deque<End> ends;
  for (int i = 0; i < local + remote; ++i) {
    nd::Adapter& adapter = i < local ? client : far;
    End &active = ends.emplace_back(), &passive = ends.emplace_back();
    Must(active.Create(adapter, i < local ? client_queue : far_queue));
    Must(passive.Create(server, queue));
    active.next = 1;
    Must(active.Receive());
    Must(passive.Receive());
    Must(Establish(adapter, active, listener, passive));
    Must(active.Send(0));
  }
  Sessions sessions;
  for (nd::Adapter* adapter : {&server, &client}) sessions.Watch(*adapter);
  std::atomic<bool> over = false;
  std::thread watcher([&] { WatchRestarts(sessions, over, client, server, listener); });
  std::array<Report, 3> reports;
  std::puts("ready");
  std::fflush(stdout);
  std::thread second([&] { MoveData(client_queue, &reports[1]); }),
      third([&] { MoveData(far_queue, &reports[2]); });
  MoveData(queue, &reports[0]);
  second.join();
  third.join();
  over = true;
  watcher.join();
  Report all;
  for (const Report& each : reports) {
    all.messages += each.messages;
    all.wrong += each.wrong;
    all.lost += each.lost;
    all.gaps.Add(each.gaps);
  }
  std::printf("connections=%d lost=%llu messages=%llu wrong=%llu gap_p99_9_ms=%.2f gap_max_ms=%.1f\n",
              local + remote, static_cast<unsigned long long>(all.lost),
              static_cast<unsigned long long>(all.messages), static_cast<unsigned long long>(all.wrong),
              all.gaps.Quantile(0.999), all.gaps.max());
  return all.lost == 0 && all.wrong == 0 && all.messages > 0 ? 0 : 1;
}
