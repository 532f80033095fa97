// SPDX-License-Identifier: Apache-2.0
// One-sided access: the client writes into the server's memory and reads it back while the server sleeps.
#include <cstring>
#include <string>

#include "example.h"

namespace {

constexpr std::uint32_t kSize = 1 << 20;

// The address and token that a peer needs to access memory; sent as private data.
struct Window {
  std::uint64_t address;
  std::uint32_t token;
  std::uint32_t size;
};

std::byte Pattern(std::size_t i) {
  return static_cast<std::byte>(i * 131 + (i >> 8));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc == 3 ? argv[1] : "";
  if (role != "server" && role != "client") {
    std::fputs("usage: remote_memory server ADDRESS:PORT | client ADDRESS:PORT\n", stderr);
    return 2;
  }
  const nd::Address address = Must(nd::Address::Parse(argv[2]));
  nd::Adapter adapter = Must(nd::Adapter::Open({.application = "remote_memory"}));
  nd::CompletionQueue queue = Must(adapter.CreateCompletionQueue(16));
  End end(adapter, queue, kSize, nd::kAllowRemoteRead | nd::kAllowRemoteWrite);
  const std::span<std::byte> memory = end.buffer.span();

  if (role == "server") {
    nd::Listener listener = Must(adapter.CreateListener());
    Must(listener.Bind(address));
    Must(listener.Listen());
    std::printf("waiting at %s\n", Must(listener.GetLocalAddress()).ToString().c_str());
    std::fflush(stdout);
    Must(listener.GetConnectionRequest(end.connector));
    const Window mine{reinterpret_cast<std::uint64_t>(memory.data()), end.region.remote_token(), kSize};
    Must(end.connector.Accept(end.pair, {.private_data = std::as_bytes(std::span(&mine, 1))}));
    Must(end.connector.NotifyDisconnect());  // Sleeps here while the client does the work.
    Must(end.connector.Disconnect());
    for (std::size_t i = 0; i < kSize; ++i) {
      if (memory[i] != Pattern(i)) Fail("the written bytes differ");
    }
    std::printf("%u bytes were written here, and none of it by this program\n", kSize);
    return 0;
  }

  Must(end.connector.Bind(Must(adapter.ResolveAddress(address))));
  Must(end.connector.Connect(end.pair, address));
  Window theirs;
  std::size_t length = sizeof(theirs);
  Must(end.connector.GetPrivateData(&theirs, &length));
  if (length < sizeof(theirs) || theirs.size < kSize) Fail("the server offers no window");
  Must(end.connector.CompleteConnect());
  for (std::size_t i = 0; i < kSize; ++i) memory[i] = Pattern(i);
  const nd::Sge all = end.region.Slice(memory.data(), kSize);
  Must(end.pair.Write(nullptr, {&all, 1}, theirs.address, theirs.token));
  Next(queue);
  std::memset(memory.data(), 0, kSize);
  Must(end.pair.Read(nullptr, {&all, 1}, theirs.address, theirs.token));
  Next(queue);
  for (std::size_t i = 0; i < kSize; ++i) {
    if (memory[i] != Pattern(i)) Fail("the bytes read back differ");
  }
  Must(end.connector.Disconnect());
  std::printf("wrote and read back %u bytes\n", kSize);
  return 0;
}
