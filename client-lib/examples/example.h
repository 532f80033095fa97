// SPDX-License-Identifier: Apache-2.0
// Shared by the examples: handling of errors, and one end of a connection with a buffer.
#pragma once

#include <nd/nd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

inline void Fail(const char* what) {
  std::fprintf(stderr, "error: %s\n", what);
  std::exit(1);
}

inline void Must(const nd::Status& status) {
  if (!status.ok()) Fail(status.ToString().c_str());
}

template <typename T>
T Must(nd::Result<T> result) {
  Must(result.status());
  return std::move(result).value();
}

// Waits for the next completion, which must be a success. The wait is bounded, so that a lost peer ends the
// program.
inline nd::Completion Next(nd::CompletionQueue& queue) {
  nd::Completion completion = Must(queue.Next(std::chrono::seconds(30)));
  if (completion.status != nd::StatusCode::kSuccess)
    Must(nd::Status(completion.status, "a work request failed"));
  return completion;
}

struct End {
  End(nd::Adapter& adapter, nd::CompletionQueue& queue, std::size_t size,
      std::uint32_t access = nd::kAllowLocalWrite)
      : buffer(Must(adapter.AllocateBuffer(size))),
        region(Must(adapter.Register(buffer, access))),
        pair(Must(adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue, .context = this}))),
        connector(Must(adapter.CreateConnector())) {}

  void Receive() { Must(pair.Receive(nullptr, std::array{region.Slice(buffer.data(), buffer.size())})); }
  void Send(std::size_t size) { Must(pair.Send(nullptr, std::array{region.Slice(buffer.data(), size)})); }
  // The three steps of the active side.
  void Connect(nd::Adapter& adapter, const nd::Address& remote) {
    Must(connector.Bind(Must(adapter.ResolveAddress(remote))));
    Must(connector.Connect(pair, remote));
    Must(connector.CompleteConnect());
  }

  nd::Buffer buffer;
  nd::MemoryRegion region;
  nd::QueuePair pair;
  nd::Connector connector;
};
