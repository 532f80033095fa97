// SPDX-License-Identifier: Apache-2.0
// The honest tenant: an application that uses the broker and its connections, and measures how long that
// takes. One thread, besides the one that accepts the connections of attackers.
#pragma once

#include <nd/nd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace nd::hostile {

// Durations in microseconds, each sorted.
struct Measured {
  std::vector<double> operation;  // An operation of a session that needs no peer.
  std::vector<double> connect;    // Connect to CompleteConnect, with the hand-over to both sides.
  std::vector<double> message;    // A message on the new connection until it is received.
  std::size_t failures = 0;
  std::string first_failure;
};
// The smallest value that at least `part` of the sorted values do not exceed; 0 without values.
double Percentile(const std::vector<double>& sorted, double part);

class Honest {
 public:
  // `active` and `passive`: directories and hosts (127.0.0.N) of the brokers of the two sides; the same
  // broker for a connection in shared memory. `victim`: also accept anybody at kVictimPort of `passive`.
  struct Side {
    std::string directory;
    int host = 2;
  };
  Honest(const Side& active, const Side& passive, bool victim);
  ~Honest();
  Honest(const Honest&) = delete;
  Honest& operator=(const Honest&) = delete;

  // Makes `count` connections in turn.
  Measured Measure(int count);
  // Closes the connections of attackers.
  void DropVictims();

 private:
  struct Ends;
  Status Once(Measured* out);
  void Accept();

  Side active_side_, passive_side_;
  Adapter active_, passive_;
  Listener listener_, victim_;
  Buffer buffer_;
  MemoryRegion region_, received_, exposed_;
  std::atomic<bool> stop_{false}, ended_{false};
  std::atomic<bool> drop_{false};
  std::thread accepts_;
};

}  // namespace nd::hostile
