// SPDX-License-Identifier: Apache-2.0
// Every operation is kept to the end of the run with its count of completions, so that a late second
// completion is found.
#include "tests/crash/race_app.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "nd/nd.h"
#include "tests/crash/census.h"
#include "tests/testing/channel.h"
#include "tests/testing/process.h"

namespace nd::crash {
namespace {

using nd::testing::Eventually;
constexpr auto kPatience = std::chrono::seconds(30);
constexpr int kWorkers = 3;

[[noreturn]] void Die(const std::string& what) {
  nd::testing::PutMessage(3, what + "\n" + StateOf(getpid()));
  std::_Exit(1);
}

struct Op {
  explicit Op(const char* what) : name(what), request([this](const Status& status) { Done(status); }) {}
  void Done(const Status& status) {
    last = status.code();
    ++completions;
  }
  const char* name;
  std::atomic<int> completions{0};
  std::atomic<StatusCode> last{StatusCode::kPending};
  Status begun;
  Request request;
};

// The work of one process in all rounds.
class Racer {
 public:
  explicit Racer(const std::map<std::string, std::string>& words)
      : active_(words.at("active") == "1"),
        rounds_(std::atoi(words.at("rounds").c_str())),
        from_(Address::Parse(words.at("from")).value()),
        to_(Address::Parse(words.at("to")).value()) {
    OpenOptions open;
    open.broker = words.at("broker");
    open.adapter = "soft0";
    Result<Adapter> adapter = Adapter::Open(open);
    if (!adapter.ok()) Die("Open: " + adapter.status().ToString());
    adapter_ = *adapter;
  }

  std::string Run() {
    if (!active_) {
      listener_ = adapter_.CreateListener().value();
      for (const Status& status : {listener_.Bind(to_), listener_.Listen()}) {
        if (!status.ok()) Die("Listen: " + status.ToString());
      }
    }
    std::vector<std::thread> workers;
    std::atomic<int> running{kWorkers};
    for (int i = 0; i < kWorkers; ++i) {
      workers.emplace_back([&, i] {
        std::mt19937 random(static_cast<unsigned>(i) * 7919 + (active_ ? 1 : 2));
        if (active_) {
          while (next_++ < rounds_) PlayActive(random);
        } else {
          while (!stop_) PlayPassive(random);
        }
        --running;
      });
    }
    // An occasional cancel of all waiting requests races too; after the stop it ends the workers.
    std::mt19937 random(99);
    while (running != 0) {
      if (!active_ && (stop_ || random() % 8 == 0)) Check(listener_.Cancel(), "Listener::Cancel");
      nd::testing::NapBetweenPolls({});
    }
    for (std::thread& worker : workers) worker.join();
    if (active_) SayStop();
    if (!active_) {
      Op& close = Begin("Listener::Close", [&](Request* r) { return listener_.Close(r); });
      Settle(close);
    }
    return Verdict();
  }

 private:
  static void Check(const Status& status, const char* what) {
    if (!status.ok()) Die(std::string(what) + ": " + status.ToString());
  }
  template <typename F>
  Op& Begin(const char* name, F&& call) {
    Op* op;
    {
      const std::lock_guard lock(mutex_);
      op = &ops_.emplace_back(name);
    }
    op->begun = call(&op->request);
    return *op;
  }
  static void Settle(Op& op) {
    if (!op.begun.pending()) return;
    if (!Eventually([&] { return op.completions != 0; }, kPatience)) {
      Die(std::string(op.name) + " hangs");
    }
  }
  static StatusCode ResultOf(const Op& op) { return op.begun.pending() ? op.last.load() : op.begun.code(); }
  static void Spin(std::mt19937& random) {
    if (random() % 4 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 600));
    } else {
      for (auto spin = random() % 6000; spin > 0; --spin) asm volatile("");
    }
  }

  // A queue pair with two receives posted; each must complete once.
  struct End {
    CompletionQueue cq;
    QueuePair qp;
    Buffer buffer;
    MemoryRegion region;
  };
  End MakeEnd() {
    End end;
    end.cq = adapter_.CreateCompletionQueue(16).value();
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &end.cq;
    options.receive_depth = options.initiator_depth = 4;
    end.qp = adapter_.CreateQueuePair(options).value();
    end.buffer = adapter_.AllocateBuffer(4096).value();
    end.region = adapter_.Register(end.buffer, kAllowLocalWrite).value();
    const Sge sge = end.region.Slice(end.buffer.data(), 64);
    for (int i = 0; i < 2; ++i) Check(end.qp.Receive(nullptr, std::span(&sge, 1)), "Receive");
    return end;
  }

  // Two threads run two or three operations each, at once.
  void Race(const Connector& raced, const QueuePair& raced_qp, std::mt19937& random, std::vector<Op*>* ops) {
    std::mutex ops_mutex;
    std::atomic<int> ready{0};
    const auto play = [&](unsigned seed) {
      Connector connector = raced;  // A handle of its own for the same object.
      QueuePair qp = raced_qp;
      std::mt19937 mine(seed);
      ++ready;
      while (ready < 2) std::this_thread::yield();
      for (int i = 0; i < 2; ++i) {
        Spin(mine);
        Op* op = nullptr;
        switch (mine() % 8) {
          case 0:
            (void)connector.Cancel();
            break;
          case 1:
            op = &Begin("Connector::Close", [&](Request* r) { return connector.Close(r); });
            break;
          case 2:
            op = &Begin("Disconnect", [&](Request* r) { return connector.Disconnect(r); });
            break;
          case 3:
            op = &Begin("NotifyDisconnect", [&](Request* r) { return connector.NotifyDisconnect(r); });
            break;
          case 4:
            (void)connector.Reject();
            break;
          case 5:
            op = active_ ? &Begin("CompleteConnect", [&](Request* r) { return connector.CompleteConnect(r); })
                         : &Begin("Accept", [&](Request* r) { return connector.Accept(qp, {}, r); });
            break;
          case 6:
            op = &Begin("QueuePair::Close", [&](Request* r) { return qp.Close(r); });
            break;
          default:
            (void)qp.Flush();
            break;
        }
        const std::lock_guard lock(ops_mutex);
        if (op != nullptr) ops->push_back(op);
      }
    };
    const unsigned seed = static_cast<unsigned>(random());
    std::thread other(play, seed);
    play(seed ^ 0x9E3779B9u);
    other.join();
  }

  // In every state all objects can be closed, and then every operation has completed.
  void Clear(Connector& connector, End& end, std::vector<Op*>& ops) {
    ops.push_back(&Begin("Connector::Close", [&](Request* r) { return connector.Close(r); }));
    ops.push_back(&Begin("QueuePair::Close", [&](Request* r) { return end.qp.Close(r); }));
    for (Op* op : ops) Settle(*op);
    int receives = 0;
    Completion list[8];
    Eventually(
        [&] {
          receives += static_cast<int>(end.cq.Poll(list));
          return receives >= 2;
        },
        kPatience);
    receives += static_cast<int>(end.cq.Poll(list));
    if (receives != 2) Die("2 receives were posted, " + std::to_string(receives) + " completed");
    ++finished_;
  }

  void PlayActive(std::mt19937& random) {
    End end = MakeEnd();
    Connector connector = adapter_.CreateConnector().value();
    std::vector<Op*> ops;
    Op& connect =
        Begin("Connect", [&](Request* r) { return connector.NdkConnect(end.qp, from_, to_, {}, r); });
    ops.push_back(&connect);
    if (random() % 2 == 0) {
      Settle(connect);
      if (random() % 2 == 0) {
        ops.push_back(&Begin("CompleteConnect", [&](Request* r) { return connector.CompleteConnect(r); }));
        if (random() % 2 == 0) Settle(*ops.back());
      }
    }
    Race(connector, end.qp, random, &ops);
    Clear(connector, end, ops);
  }

  void PlayPassive(std::mt19937& random) {
    End end = MakeEnd();
    Connector connector = adapter_.CreateConnector().value();
    std::vector<Op*> ops;
    Op& get = Begin("GetConnectionRequest",
                    [&](Request* r) { return listener_.GetConnectionRequest(connector, r); });
    ops.push_back(&get);
    // Waits as long as the active side, which has its own limit.
    if (get.begun.pending()) {
      while (get.completions == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (ResultOf(get) == StatusCode::kSuccess) {
      const Result<std::vector<std::byte>> data = connector.GetPrivateData();
      if (data.ok() && data->size() == 4) {
        (void)connector.Reject();
        stop_ = true;
      } else {
        if (random() % 4 != 0) {
          ops.push_back(&Begin("Accept", [&](Request* r) { return connector.Accept(end.qp, {}, r); }));
          if (random() % 3 == 0) Settle(*ops.back());
        }
        Race(connector, end.qp, random, &ops);
      }
    }
    Clear(connector, end, ops);
  }

  void SayStop() {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    ConnectOptions stop;
    stop.private_data = AsPrivateData("stop");
    for (;;) {
      End end = MakeEnd();
      Connector connector = adapter_.CreateConnector().value();
      std::vector<Op*> ops;
      Op& op =
          Begin("Connect", [&](Request* r) { return connector.NdkConnect(end.qp, from_, to_, stop, r); });
      ops.push_back(&op);
      Settle(op);
      Clear(connector, end, ops);
      if (ResultOf(op) == StatusCode::kConnectionRefused) return;
      if (std::chrono::steady_clock::now() > give_up) Die("the passive side does not stop");
    }
  }

  std::string Verdict() {
    Check(adapter_.Close(), "Adapter::Close");
    std::map<std::string, std::map<std::string, int>> results;
    for (const Op& op : ops_) {
      const int expected = op.begun.pending() ? 1 : 0;
      if (op.completions != expected) {
        Die(std::string(op.name) + " began " + op.begun.ToString() + " and completed " +
            std::to_string(op.completions) + " times");
      }
      if (ResultOf(op) == StatusCode::kInternalError) Die(std::string(op.name) + " ended INTERNAL_ERROR");
      ++results[op.name][std::string(Name(ResultOf(op)))];
    }
    std::ostringstream text;
    text << "ok operations=" << ops_.size() << " rounds=" << finished_;
    for (const auto& [name, statuses] : results) {
      text << "\n    " << name << ":";
      for (const auto& [status, count] : statuses) text << " " << status << " " << count;
    }
    return text.str();
  }

  bool active_;
  int rounds_;
  Address from_, to_;
  Adapter adapter_;
  Listener listener_;
  std::mutex mutex_;
  std::deque<Op> ops_;
  std::atomic<int> next_{0}, finished_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace

int RunRaceApp() {
  std::signal(SIGPIPE, SIG_IGN);
  Census before;
  nd::testing::Serve([&](const std::string& message) -> std::string {
    std::map<std::string, std::string> words;
    std::istringstream in(message);
    for (std::string word; in >> word;) {
      const std::size_t cut = word.find('=');
      if (cut != std::string::npos) words[word.substr(0, cut)] = word.substr(cut + 1);
    }
    std::string verdict = Racer(words).Run();
    // Everything is closed except what libraries keep.
    std::string difference;
    if (words["compare"] == "1") {
      if (!Eventually([&] { return (difference = Difference(before, Take(getpid()))).empty(); },
                      std::chrono::seconds(5))) {
        return "after the races this process has " + difference;
      }
    } else {
      before = Take(getpid());
    }
    return verdict;
  });
  std::_Exit(0);
}

}  // namespace nd::crash
