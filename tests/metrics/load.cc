// SPDX-License-Identifier: Apache-2.0
// metrics_load DIR APPLICATION PAIRS [by-hand]: keeps a broker busy until its standard input ends. Pairs of
// connections move data; in each round one pair is ended and made again, and one Connect has no listener.
// With by-hand the pairs stay and move data once for each byte of standard input.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

#include "nd/nd.h"

namespace {

void Must(const nd::Status& status, const char* what) {
  if (status.ok() || status.pending()) return;
  std::fprintf(stderr, "metrics_load: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T Must(nd::Result<T> result, const char* what) {
  Must(result.status(), what);
  return std::move(result).value();
}

constexpr std::size_t kMessage = 4096;

class Load {
 public:
  Load(const std::string& directory, const std::string& application)
      : adapter_(Must(nd::Adapter::Open({.broker = directory, .application = application}), "no broker")),
        queue_(Must(adapter_.CreateCompletionQueue(1024), "no queue")),
        buffer_(Must(adapter_.AllocateBuffer(2 * kMessage), "no buffer")),
        region_(Must(
            adapter_.Register(buffer_, nd::kAllowLocalWrite | nd::kAllowRemoteWrite | nd::kAllowRemoteRead),
            "no region")),
        listener_(Must(adapter_.CreateListener(), "no listener")) {
    Must(listener_.Bind(adapter_.info().addresses.front()), "cannot bind");
    Must(listener_.Listen(), "cannot listen");
    remote_ = Must(listener_.GetLocalAddress(), "no address");
  }

  void Open() {
    Pair& pair = pairs_.emplace_back(Pair{NewEnd(), NewEnd()});
    nd::Request connect, accept;
    Must(pair.active.connector.NdkConnect(pair.active.pair, remote_.WithPort(0), remote_, {}, &connect),
         "connect");
    Must(listener_.GetConnectionRequest(pair.passive.connector), "no request came");
    Must(pair.passive.connector.Accept(pair.passive.pair, {}, &accept), "accept");
    Must(connect.GetResult(), "connect");
    Must(pair.active.connector.CompleteConnect(), "complete");
    Must(accept.GetResult(), "accept");
  }
  void CloseOldest() {
    Must(pairs_.front().active.connector.Disconnect(), "disconnect");
    pairs_.pop_front();
    nd::Completion left;
    while (queue_.Poll({&left, 1}) == 1) continue;
  }
  // Drops a pair whose connection has ended, because the test kills some.
  void Move() {
    const auto address = reinterpret_cast<std::uint64_t>(buffer_.data());
    for (auto it = pairs_.begin(); it != pairs_.end();) {
      const nd::Sge in = region_.Slice(buffer_.data(), kMessage);
      const nd::Sge out = region_.Slice(buffer_.data() + kMessage, kMessage);
      nd::QueuePair& from = it->active.pair;
      const bool good = it->passive.pair.Receive(nullptr, {&in, 1}).ok() &&
                        from.Send(nullptr, {&out, 1}).ok() && Good(2) &&
                        from.Write(nullptr, {&out, 1}, address, region_.remote_token()).ok() && Good(1) &&
                        from.Read(nullptr, {&in, 1}, address, region_.remote_token()).ok() && Good(1);
      if (good) {
        ++it;
        continue;
      }
      it = pairs_.erase(it);
      nd::Completion left;
      while (queue_.Poll({&left, 1}) == 1) continue;
    }
  }
  void FailToConnect() {
    End end = NewEnd();
    const nd::Status status = end.connector.NdkConnect(end.pair, remote_.WithPort(0), remote_.WithPort(1));
    if (status.ok()) Must(nd::Status(nd::StatusCode::kUnsuccessful, "somebody listens on port 1"), "connect");
  }
  std::size_t size() const { return pairs_.size(); }

 private:
  struct End {
    nd::QueuePair pair;
    nd::Connector connector;
  };
  struct Pair {
    End active, passive;
  };
  End NewEnd() {
    return {Must(adapter_.CreateQueuePair({.receive_cq = &queue_, .initiator_cq = &queue_}), "no queue pair"),
            Must(adapter_.CreateConnector(), "no connector")};
  }
  bool Good(int completions) {
    for (; completions > 0; --completions) {
      const nd::Result<nd::Completion> done = queue_.Next(std::chrono::seconds(30));
      if (!done.ok() || done->status != nd::StatusCode::kSuccess) return false;
    }
    return true;
  }

  nd::Adapter adapter_;
  nd::CompletionQueue queue_;
  nd::Buffer buffer_;
  nd::MemoryRegion region_;
  nd::Listener listener_;
  nd::Address remote_;
  std::deque<Pair> pairs_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  Load load(argv[1], argv[2]);
  const auto wanted = static_cast<std::size_t>(std::atoi(argv[3]));
  if (argc > 4) {
    while (load.size() < wanted) load.Open();
    std::puts("UP");
    std::fflush(stdout);
    for (char byte; read(STDIN_FILENO, &byte, 1) == 1;) {
      load.Move();
      std::puts("MOVED");
      std::fflush(stdout);
    }
    return 0;
  }
  for (bool told = false;; told = true) {
    while (load.size() < wanted) load.Open();
    load.Move();
    load.FailToConnect();
    if (load.size() == wanted) load.CloseOldest();
    if (!told) std::puts("UP");
    std::fflush(stdout);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char byte;
    if (poll(&input, 1, 5) > 0 && read(STDIN_FILENO, &byte, 1) <= 0) return 0;
  }
}
