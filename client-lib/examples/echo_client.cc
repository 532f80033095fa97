// SPDX-License-Identifier: Apache-2.0
// The client mode of echo_server: many connections at once, each with a text of its own.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "example.h"

void RunClients(nd::Adapter& adapter, const nd::Address& server, int count) {
  nd::CompletionQueue queue = Must(adapter.CreateCompletionQueue(4096));
  std::vector<std::unique_ptr<End>> ends;
  for (int i = 0; i < count; ++i) {
    ends.push_back(std::make_unique<End>(adapter, queue, 4096));
    ends.back()->Receive();
    ends.back()->Connect(adapter, server);
  }
  const auto text = [](std::size_t i) { return "this is connection " + std::to_string(i) + " of many"; };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string message = text(i);
    std::memcpy(ends[i]->buffer.data(), message.data(), message.size());
    // Inline data is copied at the post, so the echo may arrive in the same buffer.
    Must(ends[i]->pair.Send(nullptr,
                            std::array{ends[i]->region.Slice(ends[i]->buffer.data(), message.size())},
                            nd::kOpInline | nd::kOpSilentSuccess));
    std::memset(ends[i]->buffer.data(), 0, message.size());
  }
  for (std::size_t i = 0; i < ends.size(); ++i) Next(queue);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string message = text(i);
    if (std::memcmp(ends[i]->buffer.data(), message.data(), message.size()) != 0) Fail("an echo differs");
    Must(ends[i]->connector.Disconnect());
  }
  std::printf("%d connections echoed\n", count);
}
