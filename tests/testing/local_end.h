// SPDX-License-Identifier: Apache-2.0
// An application on this host, for tests that are programs of a real broker.
#pragma once

#include <nd/nd.h>

#include <cstdint>
#include <string>

namespace nd::testing {

inline Address Local(std::uint16_t port) {
  return Address::Parse("127.0.0.1").value().WithPort(port);
}

inline Result<Adapter> OpenAt(const std::string& directory) {
  OpenOptions options;
  options.broker = directory;
  return Adapter::Open(options);
}

// One end of a connection with its objects.
struct End {
  explicit End(Adapter& adapter)
      : queue(adapter.CreateCompletionQueue(64).value()),
        pair(adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue}).value()),
        connector(adapter.CreateConnector().value()) {}
  CompletionQueue queue;
  QueuePair pair;
  Connector connector;
};

}  // namespace nd::testing
