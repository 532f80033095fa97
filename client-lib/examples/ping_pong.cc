// SPDX-License-Identifier: Apache-2.0
// Two processes send one message back and forth. The client checks every byte that comes back.
#include <cstring>
#include <string>

#include "example.h"

namespace {

constexpr std::size_t kSize = 64;
constexpr int kRounds = 1000;

// The answer to a message proves its arrival, so Sends are silent; inline data may be overwritten at once.
// The last answer has no answer, so its sender is the side that disconnects: Disconnect waits until sent data
// has arrived.
void Play(End& end, nd::CompletionQueue& queue, bool server) {
  const nd::Sge in = end.region.Slice(end.buffer.data(), kSize);
  const nd::Sge out = end.region.Slice(end.buffer.data() + kSize, kSize);
  int received = 0;
  const auto send = [&] {
    if (!server) std::memset(out.address, received & 0xFF, kSize);
    Must(end.pair.Send(nullptr, {&out, 1}, nd::kOpInline | nd::kOpSilentSuccess));
  };
  if (!server) send();
  while (received < kRounds) {
    Next(queue);
    ++received;
    if (server) std::memcpy(out.address, in.address, kSize);
    if (!server && std::memcmp(in.address, out.address, kSize) != 0) Fail("the echo differs");
    if (received < kRounds) Must(end.pair.Receive(nullptr, {&in, 1}));
    if (server || received < kRounds) send();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc == 3 ? argv[1] : "";
  if (role != "server" && role != "client") {
    std::fputs("usage: ping_pong server ADDRESS:PORT | client ADDRESS:PORT\n", stderr);
    return 2;
  }
  const nd::Address address = Must(nd::Address::Parse(argv[2]));
  nd::Adapter adapter = Must(nd::Adapter::Open({.application = "ping_pong"}));
  nd::CompletionQueue queue = Must(adapter.CreateCompletionQueue(16));
  End end(adapter, queue, 2 * kSize);
  // Posted before the connection is established, because the first message may arrive at once.
  Must(end.pair.Receive(nullptr, std::array{end.region.Slice(end.buffer.data(), kSize)}));

  if (role == "server") {
    nd::Listener listener = Must(adapter.CreateListener());
    Must(listener.Bind(address));
    Must(listener.Listen());
    std::printf("waiting at %s\n", Must(listener.GetLocalAddress()).ToString().c_str());
    std::fflush(stdout);
    Must(listener.GetConnectionRequest(end.connector));
    Must(end.connector.Accept(end.pair));
    Play(end, queue, true);
  } else {
    end.Connect(adapter, address);
    Play(end, queue, false);
    Must(end.connector.NotifyDisconnect());
  }
  Must(end.connector.Disconnect());
  std::printf("%d messages of %zu bytes each way\n", kRounds, kSize);
  return 0;
}
