// SPDX-License-Identifier: Apache-2.0
// Makes a real connection, as an application does, and measures each phase.
//
// Open(), Connect(), then Echo() as often as wanted, Disconnect(); after a failure call only the accessors.
// One thread. A Failure names the refusing side and the reason.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/context.h"
#include "nd/nd.h"

namespace nd::cli {

struct ProbeOptions {
  std::string address;  // "10.0.0.1:7000"
  std::string adapter;  // Empty: the first.
  std::string application = "ndctl-ping";
  std::uint32_t size = 64;  // The size of an echoed message.
};

class Probe {
 public:
  struct Phase {
    std::string name;  // "open", "resolve", "create", "bind", "connect", "complete", "disconnect".
    double seconds;
  };

  Probe(Context& context, const ProbeOptions& options);

  Failure Open();
  Failure Connect();
  // Sends and checks `count` messages and returns their round-trip times in microseconds. Requires echoes().
  Failure Echo(std::uint32_t count, std::vector<double>* round_trips);
  void Disconnect();

  // The phases that were started, in order; a failure happened in the last one.
  const std::vector<Phase>& phases() const { return phases_; }
  // The status behind the last failure.
  const Status& status() const { return status_; }
  bool echoes() const { return echoes_; }
  const Address& remote() const { return remote_; }
  const Address& local() const { return local_; }
  std::string adapter() const { return adapter_.info().name; }

 private:
  Failure Fail(const Status& status, const std::string& what);
  Result<Completion> Next();
  void Begin(const char* name);
  void End();

  Context& context_;
  ProbeOptions options_;
  std::chrono::nanoseconds timeout_;
  std::chrono::steady_clock::time_point phase_start_;
  std::vector<Phase> phases_;
  Status status_;
  bool echoes_ = false;
  Address remote_, local_;
  Adapter adapter_;
  CompletionQueue cq_;
  Buffer buffer_;
  MemoryRegion region_;
  QueuePair qp_;
  Connector connector_;
};

}  // namespace nd::cli
