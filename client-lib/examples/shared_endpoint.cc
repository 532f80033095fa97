// SPDX-License-Identifier: Apache-2.0
// One local port, many destinations: the client connects to COUNT servers from a single shared endpoint.
// The server mode listens on COUNT ports in a row and sends each message back.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "example.h"

namespace {

constexpr std::size_t kSize = 64;
using Ends = std::vector<std::unique_ptr<End>>;

nd::Address Nth(const nd::Address& first, int i) {
  return first.WithPort(static_cast<std::uint16_t>(first.port() + i));
}

void RunServers(nd::Adapter& adapter, nd::CompletionQueue& queue, const nd::Address& first, Ends& ends) {
  std::vector<nd::Listener> listeners;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    listeners.push_back(Must(adapter.CreateListener()));
    Must(listeners[i].Bind(Nth(first, static_cast<int>(i))));
    Must(listeners[i].Listen());
    ends[i]->Receive();
  }
  std::printf("waiting at %s\n", first.ToString().c_str());
  std::fflush(stdout);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Must(listeners[i].GetConnectionRequest(ends[i]->connector));
    Must(ends[i]->connector.Accept(ends[i]->pair));
    const nd::Completion message = Next(queue);
    // Silent, because the client may disconnect once it has the echo, and the Send may then not be confirmed.
    const std::array echo{ends[i]->region.Slice(ends[i]->buffer.data(), message.bytes_transferred)};
    Must(ends[i]->pair.Send(nullptr, echo, nd::kOpSilentSuccess));
  }
  for (auto& end : ends) Must(end->connector.NotifyDisconnect());
}

void RunClient(nd::Adapter& adapter, nd::CompletionQueue& queue, const nd::Address& first, Ends& ends) {
  nd::SharedEndpoint endpoint = Must(adapter.CreateSharedEndpoint(Must(adapter.ResolveAddress(first))));
  const nd::Address local = Must(endpoint.GetLocalAddress());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    End& end = *ends[i];
    Must(end.connector.NdkConnectWithSharedEndpoint(end.pair, endpoint, Nth(first, static_cast<int>(i))));
    Must(end.connector.CompleteConnect());
    if (Must(end.connector.GetLocalAddress()) != local) Fail("a connection has another local address");
    const std::string text = "to destination " + std::to_string(i);
    end.Receive();
    std::memcpy(end.buffer.data(), text.data(), text.size());
    // Inline data is copied at the post, so the echo may arrive in the same buffer.
    const std::array message{end.region.Slice(end.buffer.data(), text.size())};
    Must(end.pair.Send(nullptr, message, nd::kOpInline | nd::kOpSilentSuccess));
    std::memset(end.buffer.data(), 0, text.size());
    if (Next(queue).bytes_transferred != text.size()) Fail("the echo has another length");
    if (std::memcmp(end.buffer.data(), text.data(), text.size()) != 0) Fail("the echo differs");
  }
  std::printf("%zu destinations from %s\n", ends.size(), local.ToString().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc == 4 ? argv[1] : "";
  if (role != "server" && role != "client") Fail("usage: shared_endpoint server|client ADDRESS:PORT COUNT");
  const nd::Address first = Must(nd::Address::Parse(argv[2]));
  nd::Adapter adapter = Must(nd::Adapter::Open({.application = "shared_endpoint"}));
  nd::CompletionQueue queue = Must(adapter.CreateCompletionQueue(4096));
  Ends ends;
  for (int i = 0; i < std::atoi(argv[3]); ++i) ends.push_back(std::make_unique<End>(adapter, queue, kSize));
  role == "server" ? RunServers(adapter, queue, first, ends) : RunClient(adapter, queue, first, ends);
  for (auto& end : ends) Must(end->connector.Disconnect());
}
