// SPDX-License-Identifier: Apache-2.0
// broker_pair server|client ADAPTER ADDRESS:PORT [ROUNDS] [SECONDS]: two processes that a real broker
// connects. They exchange messages; then the client waits SECONDS and they exchange as many again. The end of
// the broker in between must not matter. Prints one line.
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

// The completions so far, counted by kind. A peer may answer before the sending device has the
// acknowledgement, so a receive may complete before the send that caused it.
struct Talk {
  nd::QueuePair& pair;
  nd::CompletionQueue& queue;
  nd::Sge in, out;
  int sent = 0;
  int received = 0;

  void Send() { Must(pair.Send(nullptr, {&out, 1}), "send"); }
  // Takes one completion.
  void Take(const char* what) {
    const nd::Completion done = Must(queue.Next(std::chrono::seconds(30)), what);
    Must(nd::Status(done.status), what);
    if (done.type == nd::RequestType::kSend) {
      ++sent;
      return;
    }
    ++received;
    Must(pair.Receive(nullptr, {&in, 1}), "receive");
  }
};

// Continues until `rounds` messages went each way in total.
void Play(Talk& talk, bool first, int rounds) {
  while (talk.sent < rounds || talk.received < rounds) {
    const int sent = talk.sent, received = talk.received;
    if (first && sent == received && sent < rounds) talk.Send();
    do talk.Take("completion");
    while (first && talk.sent != talk.received);
    if (!first && talk.received > received && talk.received <= rounds) talk.Send();
  }
}

// The last message comes from the client, and the server then disconnects. The receiver of the last message
// may disconnect safely. The last request of the other side may lack its acknowledgement and complete with
// CANCELED although it arrived.
void LastWord(Talk& talk, bool speaks, int rounds) {
  if (!speaks) {
    while (talk.received <= rounds) talk.Take("the last word");
    return;
  }
  talk.Send();
  for (;;) {
    if (Must(talk.queue.Next(std::chrono::seconds(30)), "last word").type == nd::RequestType::kSend) return;
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
  Talk talk{pair, queue, in, out};
  Play(talk, !server, rounds);
  const double played = Seconds(playing);
  int all = rounds;
  if (wait > 0) {
    all += rounds;
    if (!server) std::this_thread::sleep_for(std::chrono::seconds(wait));
    Play(talk, !server, all);
  }
  LastWord(talk, !server, all);
  // Without a broker the disconnect of the peer would not be reported.
  if (!server && wait == 0) Must(connector.NotifyDisconnect(), "notify disconnect");
  Must(connector.Disconnect(), "disconnect");
  std::printf("%s %s: connected in %.1f ms, %d round trips of %.0f us%s\n", argv[1], argv[2], connected * 1e3,
              rounds, played / rounds * 1e6, wait > 0 ? ", and as many again later" : "");
  return 0;
}
