// SPDX-License-Identifier: Apache-2.0
// The options of ndperf, for the process that starts the two ends and for the ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nd::perf {

enum class Role { kParent, kServer, kClient };
enum class Transport { kLocal, kIwarp };
enum class Op { kConnect, kSend, kWrite, kRead, kResolve };
enum class Metric { kLatency, kRate, kBandwidth };
// Spinning, in Wait(), or in poll() on the queue's descriptor after Notify().
enum class Waiting { kPoll, kBlock, kNotify };

const char* Name(Transport transport);
const char* Name(Op op);
const char* Name(Metric metric);
const char* Name(Waiting waiting);

struct Options {
  Role role = Role::kParent;
  Transport transport = Transport::kLocal;
  Op op = Op::kSend;
  Metric metric = Metric::kLatency;
  std::uint32_t size = 8;
  std::uint32_t iterations = 0;  // After Resolve() never 0.
  std::uint32_t window = 0;
  std::optional<std::uint32_t> warmup;  // Requests that are not counted. After Resolve() it has a value.
  std::uint32_t batch = 1;              // The number of messages per measurement of time.
  Waiting waiting = Waiting::kPoll;
  bool touch = false;            // The receiver reads every byte of every message.
  bool ordinary_memory = false;  // Messages are in memory that the library did not allocate.
  bool pin = false;
  std::vector<int>
      cpus;  // Of the client, the server, the client's broker and the server's broker, as far as given.
  bool crc = true;
  bool self = false;
  bool json = false;
  bool histogram = false;
  bool progress = false;    // The client reports its progress.
  std::string broker;       // Directory of the broker of the client's side.
  std::string peer_broker;  // And of the server's side; empty: the same.
  std::string adapter;      // Of these brokers, for both ends; empty: the first one.
  std::string address;      // Server: the address to listen on. Client: the address to connect to.
  int report_fd = -1;       // The ends report their results to the parent on it.

  // The medium of the connections, for display: the transport, or the requested adapter.
  std::string Medium() const { return adapter.empty() ? Name(transport) : adapter; }
  // The CPU of the n-th of the processes in `cpus`; no value: not pinned.
  std::optional<int> Cpu(std::size_t n) const {
    return n < cpus.size() ? std::optional<int>(cpus[n]) : std::nullopt;
  }
  // Arguments of the process for one end.
  std::vector<std::string> EndArguments(Role end, const std::string& broker_directory,
                                        const std::string& end_address, int fd) const;
};

// Returns the exit code to end with, or no value to continue. Prints errors on stderr.
std::optional<int> Parse(int argc, char** argv, Options* options);

}  // namespace nd::perf
