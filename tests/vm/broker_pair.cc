// SPDX-License-Identifier: Apache-2.0
// broker_pair server|client ADAPTER ADDRESS:PORT [ROUNDS] [SECONDS]: two processes that a real broker
// connects. Messages go to and fro; then the client waits SECONDS and sends as many again: what happened to
// the broker meanwhile must not matter. Prints one line.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "nd/nd.h"

namespace {

constexpr std::size_t kSize = 64;

void Must(const nd::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "broker_pair: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T Must(nd::Result<T> result, const char* what) {
  Must(result.status(), what);
  return std::move(result).value();
}

double Seconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

// One message each way, `rounds` times.
void Play(nd::QueuePair& pair, nd::CompletionQueue& queue, const nd::Sge& in, const nd::Sge& out, bool first,
          int rounds) {
  for (int i = 0; i < rounds; ++i) {
    bool sent = false, received = false;
    if (first) Must(pair.Send(nullptr, {&out, 1}), "send");
    while (!sent || !received) {
      const nd::Completion done = Must(queue.Next(std::chrono::seconds(30)), "completion");
      Must(nd::Status(done.status), "a request");
      if (done.type == nd::RequestType::kSend) {
        sent = true;
        continue;
      }
      received = true;
      Must(pair.Receive(nullptr, {&in, 1}), "receive");
      if (!first) Must(pair.Send(nullptr, {&out, 1}), "answer");
    }
  }
}

// The client's last word, after which the server hangs up: whoever hears last may, the other's last request
// may still lack the device's acknowledgement and then ends CANCELED although it arrived.
void LastWord(nd::QueuePair& pair, nd::CompletionQueue& queue, const nd::Sge& out, bool speaks) {
  if (speaks) Must(pair.Send(nullptr, {&out, 1}), "last word");
  const nd::RequestType wanted = speaks ? nd::RequestType::kSend : nd::RequestType::kReceive;
  for (;;) {
    const nd::Completion done = Must(queue.Next(std::chrono::seconds(30)), "last completion");
    if (done.type != wanted) continue;
    if (!speaks) Must(nd::Status(done.status), "the last word");
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: broker_pair server|client ADAPTER ADDRESS:PORT [ROUNDS] [SECONDS]\n", stderr);
    return 2;
  }
  const bool server = std::string(argv[1]) == "server";
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 100;
  const int wait = argc > 5 ? std::atoi(argv[5]) : 0;
  nd::OpenOptions open;
  open.adapter = argv[2];
  open.application = "broker_pair";
  nd::Adapter adapter = Must(nd::Adapter::Open(open), "open adapter");
  const nd::Address address = Must(nd::Address::Parse(argv[3]), "address");
  nd::CompletionQueue queue = Must(adapter.CreateCompletionQueue(64), "completion queue");
  nd::Buffer buffer = Must(adapter.AllocateBuffer(4096), "buffer");
  nd::MemoryRegion region = Must(adapter.Register(buffer, nd::kAllowLocalWrite), "region");
  nd::QueuePairOptions options;
  options.receive_cq = options.initiator_cq = &queue;
  nd::QueuePair pair = Must(adapter.CreateQueuePair(options), "queue pair");
  const nd::Sge in = region.Slice(buffer.data(), kSize), out = region.Slice(buffer.data() + kSize, kSize);
  for (int i = 0; i < 4; ++i) Must(pair.Receive(nullptr, {&in, 1}), "receive");
  nd::Connector connector = Must(adapter.CreateConnector(), "connector");
  const auto begun = std::chrono::steady_clock::now();
  if (server) {
    nd::Listener listener = Must(adapter.CreateListener(), "listener");
    Must(listener.Bind(address), "bind");
    Must(listener.Listen(), "listen");
    std::printf("listening\n");
    std::fflush(stdout);
    Must(listener.GetConnectionRequest(connector), "connection request");
    Must(connector.Accept(pair), "accept");
  } else {
    Must(connector.Bind(nd::Address::Parse(address.IpToString()).value()), "bind");
    Must(connector.Connect(pair, address), "connect");
    Must(connector.CompleteConnect(), "complete connect");
  }
  const double connected = Seconds(begun);
  const auto playing = std::chrono::steady_clock::now();
  Play(pair, queue, in, out, !server, rounds);
  const double played = Seconds(playing);
  if (wait > 0) {
    if (!server) std::this_thread::sleep_for(std::chrono::seconds(wait));
    Play(pair, queue, in, out, !server, rounds);
  }
  LastWord(pair, queue, out, !server);
  // Without a broker nobody would bring the peer's goodbye.
  if (!server && wait == 0) Must(connector.NotifyDisconnect(), "notify disconnect");
  Must(connector.Disconnect(), "disconnect");
  std::printf("%s %s: connected in %.1f ms, %d round trips of %.0f us%s\n", argv[1], argv[2], connected * 1e3,
              rounds, played / rounds * 1e6, wait > 0 ? ", and as many again later" : "");
  return 0;
}
