// SPDX-License-Identifier: Apache-2.0
// Shared by the programs: arguments, one end of a connection, waits with a limit.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "nd/nd.h"

namespace nd::testing {

class Arguments {
 public:
  explicit Arguments(const std::string& words);
  std::string Text(const std::string& key) const;
  int Number(const std::string& key, int otherwise = 0) const;
  Address At(const std::string& key = "ip") const;  // With the port of "port", 0 without.
 private:
  std::map<std::string, std::string> values_;
};

// A queue pair with its completion queue and a registered buffer of `size` bytes.
struct End {
  End(Adapter& adapter, std::size_t size, std::uint32_t depth = 64);
  Sge Piece(std::size_t offset, std::size_t length) const {
    return region.Slice(buffer.data() + offset, length);
  }
  CompletionQueue cq;
  QueuePair qp;
  Buffer buffer;
  MemoryRegion region;
  // Completions that NextOf() took before their turn: the answer to a Send may complete before the Send.
  std::deque<Completion> early;
};

// The adapter of "adapter", of the broker of "broker".
Adapter OpenFor(const Arguments& arguments);

inline constexpr auto kProgramPatience = std::chrono::seconds(30);

// Waits for the final status of an operation, with a limit. PENDING means that the operation hung.
Status Await(Status inline_status, Request& request);
// Returns the oldest completion of `type`, or the first failed completion; IO_TIMEOUT when none comes. Other
// completions are kept.
Completion NextOf(End& end, RequestType type, bool notified = false);

std::string BindAll(const Arguments& arguments);
std::string RaceBind(const Arguments& arguments);
std::string RaceCancel(const Arguments& arguments);
std::string CancelOrder(const Arguments& arguments);
std::string Churn(const Arguments& arguments);
std::string PostRace(const Arguments& arguments);
std::string AcceptLoop(const Arguments& arguments);
std::string ConnectLoop(const Arguments& arguments);
std::string ManyClients(const Arguments& arguments);
std::string RateServer(const Arguments& arguments);
std::string RateClient(const Arguments& arguments);
std::string RegistrationLoop(const Arguments& arguments);

}  // namespace nd::testing
