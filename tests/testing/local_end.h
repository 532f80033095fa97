// SPDX-License-Identifier: Apache-2.0
// An application on this host, for tests that are programs of a real broker.
#pragma once

#include <nd/nd.h>
#include <unistd.h>

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

// The three calls of the active side: Bind to any port, Connect, CompleteConnect.
inline Status ConnectTo(End& end, std::uint16_t port) {
  if (Status status = end.connector.Bind(Local(0)); !status.ok()) return status;
  if (Status status = end.connector.Connect(end.pair, Local(port)); !status.ok()) return status;
  return end.connector.CompleteConnect();
}

// The main function of a program that keeps one connection to `port` until it is killed. Returns on failure.
inline int KeepConnection(const std::string& directory, std::uint16_t port) {
  Result<Adapter> adapter = OpenAt(directory);
  if (!adapter.ok()) return 2;
  End end(*adapter);
  if (!ConnectTo(end, port).ok()) return 1;
  for (;;) ::pause();
}

}  // namespace nd::testing
