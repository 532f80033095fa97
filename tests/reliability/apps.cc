// SPDX-License-Identifier: Apache-2.0
#include "tests/reliability/apps.h"

#include <nd/nd.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <deque>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

volatile sig_atomic_t ended = 0, phase = 0;

void Listen() {
  ::signal(SIGTERM, [](int) { ended = 1; });
  ::signal(SIGUSR1, [](int) { phase = 1; });
}
void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}
Address At(const std::string& text) {
  return Must(Address::Parse(text));
}
Adapter OpenAt(const std::string& directory, const char* name) {
  OpenOptions options;
  options.broker = directory;
  options.application = name;
  return Must(Adapter::Open(options));
}

void PrintSession(Adapter& adapter) {
  adapter.SetSessionCallback([](bool connected) {
    Print((connected ? "session back " : "session lost ") + std::to_string(NowMs()));
  });
}

// One end: a receive of eight bytes at a time, and inline Sends. The numbers of all ends are in one buffer.
struct End {
  End(const MemoryRegion& memory, std::uint64_t* words) : region(memory), slot(words) {}
  Status Create(Adapter& adapter, CompletionQueue& queue) {
    Result<QueuePair> made =
        adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue, .context = this});
    if (!made.ok()) return made.status();
    pair = std::move(made).value();
    Result<Connector> connects = adapter.CreateConnector();
    if (!connects.ok()) return connects.status();
    connector = std::move(connects).value();
    return Receive();
  }
  Status Receive() { return pair.Receive(nullptr, std::array{region.Slice(&slot[0], 8)}); }
  Status Send(std::uint64_t number) {
    slot[1] = number;
    return pair.Send(nullptr, std::array{region.Slice(&slot[1], 8)}, kOpInline | kOpSilentSuccess);
  }
  const MemoryRegion& region;
  std::uint64_t* slot;  // Received, sent.
  QueuePair pair;
  Connector connector;
  std::uint64_t next = 0;  // The number of the next message.
  double sent_at = 0;
  std::atomic<bool> lost = false;
  const std::shared_ptr<std::atomic<bool>> left = std::make_shared<std::atomic<bool>>(false);  // By the peer.
};

// All ends of a process, their memory and their queue.
struct Ends {
  Ends(Adapter& a, std::size_t most)
      : adapter(a),
        buffer(Must(a.AllocateBuffer(std::max<std::size_t>(4096, most * 16)))),
        region(Must(a.Register(buffer, kAllowLocalWrite))),
        queue(Must(a.CreateCompletionQueue(static_cast<std::uint32_t>(most * 4 + 16)))) {}
  // Makes an end with its receive posted; null while the broker is away.
  std::unique_ptr<End> Make() {
    std::uint64_t* slot = reinterpret_cast<std::uint64_t*>(buffer.data()) + 2 * used;
    if (free.empty()) {
      ++used;
    } else {
      slot = free.back();
      free.pop_back();
    }
    auto end = std::make_unique<End>(region, slot);
    if (const Status status = end->Create(adapter, queue); !status.ok()) {
      last_error = status;
      Drop(std::move(end));
    }
    return end;
  }
  void Drop(std::unique_ptr<End> end) {
    static_cast<void>(end->connector.Close());
    static_cast<void>(end->pair.Close());
    free.push_back(end->slot);
  }
  Adapter& adapter;
  Buffer buffer;
  MemoryRegion region;
  CompletionQueue queue;
  std::size_t used = 0;
  std::vector<std::uint64_t*> free;  // Slots of ends that were dropped.
  Status last_error;
};

Status Connect(End& end, const Address& local, const Address& remote) {
  Status status = end.connector.Bind(local);
  if (status.ok()) status = end.connector.Connect(end.pair, remote);
  if (status.ok()) status = end.connector.CompleteConnect();
  return status;
}

}  // namespace

int RunEcho(const std::vector<std::string>& arguments) {
  Listen();
  Adapter adapter = OpenAt(arguments.at(0), "echo");
  PrintSession(adapter);
  const std::size_t expected = std::stoul(arguments.at(2));
  Ends ends(adapter, expected + 64);
  Listener listener = Must(adapter.CreateListener());
  Must(listener.Bind(At(arguments.at(1))));
  Must(listener.Listen());
  Print("listening");
  std::thread accepts([&] {
    std::deque<std::unique_ptr<End>> all;
    while (ended == 0) {
      // Connections that carried no message come and go. The others stay, so that they can be counted.
      for (std::size_t i = expected; i < all.size(); ++i) {
        if (*all[i]->left && all[i]->next == 0) {
          std::swap(all[i], all.back());
          ends.Drop(std::move(all.back()));
          all.pop_back();
        }
      }
      std::unique_ptr<End> end = ends.Make();
      if (!end) {
        std::this_thread::sleep_for(milliseconds(2));
        continue;
      }
      if (all.size() >= expected) {
        end->connector.SetDisconnectCallback([left = end->left](DisconnectReason) { *left = true; });
      }
      Status status = listener.GetConnectionRequest(end->connector);
      if (status.ok()) status = end->connector.Accept(end->pair);
      if (status.ok()) {
        all.push_back(std::move(end));
      } else {
        ends.Drop(std::move(end));
        std::this_thread::sleep_for(milliseconds(2));
      }
    }
  });
  std::array<Completion, 64> done;
  std::size_t gone = 0;
  while (ended == 0) {
    const std::size_t count = ends.queue.Poll(done);
    if (count == 0) static_cast<void>(ends.queue.Wait(milliseconds(50)));
    for (std::size_t i = 0; i < count; ++i) {
      End& end = *static_cast<End*>(done[i].queue_pair_context);
      if (end.lost) continue;
      if (done[i].status == StatusCode::kSuccess) {
        const std::uint64_t number = end.slot[0];
        if (number == end.next && end.Receive().ok() && end.Send(number).ok()) {
          ++end.next;
          continue;
        }
      }
      end.lost = true;
      if (end.next > 0 && ++gone == expected) {
        Print("gone " + std::to_string(gone) + " " + std::to_string(NowMs()));
      }
    }
  }
  std::_Exit(0);  // The accepting thread waits for a peer and cannot be joined.
}

int RunClient(const std::vector<std::string>& arguments) {
  Listen();
  Adapter adapter = OpenAt(arguments.at(0), "client");
  const Address remote = At(arguments.at(1));
  const std::size_t wanted = std::stoul(arguments.at(2));
  const milliseconds period(std::stol(arguments.at(3)));
  const Address local = Must(adapter.ResolveAddress(remote));
  Ends ends(adapter, wanted);
  std::vector<std::unique_ptr<End>> all;
  for (std::size_t i = 0; i < wanted; ++i) {
    all.push_back(ends.Make());
    if (all.back() == nullptr) Must(ends.last_error);
    Must(Connect(*all.back(), local, remote));
  }
  PrintSession(adapter);
  std::array<std::vector<double>, 2> delays;
  std::uint64_t messages = 0, wrong = 0, lost = 0;
  std::array<Completion, 64> done;
  bool told = false;
  while (ended == 0) {
    const auto began = Clock::now();
    std::size_t waiting = 0;
    for (auto& end : all) {
      if (end->lost) continue;
      end->sent_at = NowMs();
      if (end->Send(end->next).ok()) {
        ++waiting;
      } else {
        end->lost = true;
        ++lost;
      }
    }
    while (waiting > 0 && Clock::now() - began < seconds(60)) {
      const std::size_t count = ends.queue.Poll(done);
      if (count == 0) static_cast<void>(ends.queue.Wait(milliseconds(50)));
      const double now = NowMs();
      for (std::size_t i = 0; i < count; ++i) {
        End& end = *static_cast<End*>(done[i].queue_pair_context);
        if (end.lost) continue;
        --waiting;
        if (done[i].status != StatusCode::kSuccess || !end.Receive().ok()) {
          end.lost = true;
          ++lost;
          continue;
        }
        ++messages;
        wrong += end.slot[0] == end.next ? 0 : 1;
        ++end.next;
        delays[static_cast<std::size_t>(phase)].push_back(now - end.sent_at);
      }
    }
    lost += waiting;  // No answer in a minute.
    if (!std::exchange(told, true)) Print("ready");
    std::this_thread::sleep_until(began + period);
  }
  std::string line =
      Format("client connections=%zu lost=%zu messages=%zu wrong=%zu", wanted, static_cast<std::size_t>(lost),
             static_cast<std::size_t>(messages), static_cast<std::size_t>(wrong));
  for (const int p : {0, 1}) {
    const auto& values = delays[static_cast<std::size_t>(p)];
    line += Format(" p50_%d=%.3f p99_9_%d=%.3f max_%d=%.3f", p, Percentile(values, 0.5), p,
                   Percentile(values, 0.999), p, Percentile(values, 1));
  }
  Print(line);
  std::_Exit(0);
}

int RunProber(const std::vector<std::string>& arguments) {
  Listen();
  Adapter adapter = OpenAt(arguments.at(0), "prober");
  const Address remote = At(arguments.at(1));
  const Address local = Must(adapter.ResolveAddress(remote));
  bool up = false;
  while (ended == 0) {
    Ends ends(adapter, 1);
    std::unique_ptr<End> end = ends.Make();
    if (!end) Must(ends.last_error);
    const Status status = Connect(*end, local, remote);
    if (status.ok() && !up) Print("up " + std::to_string(NowMs()));
    if (!status.ok() && up) Print("down " + std::to_string(NowMs()) + " " + status.ToString());
    up = status.ok();
    static_cast<void>(end->connector.Close());
    std::this_thread::sleep_for(milliseconds(5));
  }
  std::_Exit(0);
}

int RunThief(const std::vector<std::string>& arguments) {
  Listen();
  Adapter adapter = OpenAt(arguments.at(0), "thief");
  const Address wanted = At(arguments.at(1));
  std::uint64_t tries = 0, thefts = 0;
  Print("thief ready");
  while (ended == 0) {
    Result<Listener> listener = adapter.CreateListener();
    if (!listener.ok()) {
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    ++tries;
    thefts += listener->Bind(wanted).ok() ? 1 : 0;
    static_cast<void>(listener->Close());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  Print(Format("theft tries=%zu thefts=%zu", static_cast<std::size_t>(tries),
               static_cast<std::size_t>(thefts)));
  std::_Exit(0);
}

App::App(const std::string& place, const std::string& name, std::vector<std::string> arguments,
         std::optional<uid_t> uid)
    : output_(place + "/" + name) {
  testing::SpawnOptions options;
  options.arguments = {testing::BinaryDirectory() + "/nd_reliability"};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.output = output_;
  options.uid = uid;
  process_ = testing::Process::Spawn(options);
}

std::vector<std::string> App::Lines() const {
  std::ifstream file(output_);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line) && !file.eof();) lines.push_back(line);
  return lines;
}

std::string App::Await(const std::string& start, std::size_t nth, std::chrono::milliseconds patience) const {
  std::string found;
  testing::Eventually(
      [&] {
        std::size_t seen = 0;
        for (const std::string& line : Lines()) {
          if (line.starts_with(start) && ++seen == nth) found = line;
        }
        return !found.empty();
      },
      patience);
  return found;
}

std::string App::End(const std::string& start) {
  process_.Signal(SIGTERM);
  std::string line = Await(start, 1, seconds(70));
  process_.Kill();
  return line;
}

double Field(const std::string& line, const std::string& name) {
  const std::size_t at = line.find(" " + name + "=");
  return at == std::string::npos ? -1 : std::strtod(line.c_str() + at + name.size() + 2, nullptr);
}

}  // namespace nd::reliability
