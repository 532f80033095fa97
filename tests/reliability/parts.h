// SPDX-License-Identifier: Apache-2.0
// The measurements. Each starts brokers and applications of its own, prints its rows, and returns 0 when it
// could measure.
#pragma once

#include <string>
#include <vector>

#include "tests/testing/daemon.h"

namespace nd::reliability {

struct Scale {
  std::size_t connections = 10'000;
  int rounds = 20;
};

// Connections of both transports while their broker is killed: rows 1 to 4, 19 (ports) and 30.
int MeasureRestarts(const Scale& scale);
// An application with 1, 1,000 and `connections` connections is killed: rows 6 and 7.
int MeasureReclaim(const Scale& scale);

// Malformed start-up frames over sockets, 100 for each of `connections`: row 9.
int MeasureHandshakes(const Scale& scale);
// As many peers as `connections` that never finish their request: row 11.
int MeasureSlowPeers(const Scale& scale);
// A full backlog, over the wire: row 12.
int MeasureBacklog(const Scale& scale);
// A full table of descriptors, and silent clients: rows 16 and 17.
int MeasureDescriptors(const Scale& scale);
// Single parts of the product: rows 13 and 14.
int MeasureCosts(const Scale& scale);
// Row 20.
int MeasureStags(const Scale& scale);
// Row 31.
int MeasureFairness(const Scale& scale);

// A directory that every user may use, deleted with the object.
class Place {
 public:
  Place();
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Options of a broker at 127.0.0.`host` whose quotas do not end a measurement.
testing::DaemonOptions BrokerAt(int host);
// Resident memory of a process in bytes.
std::uint64_t ResidentBytes(pid_t pid);

}  // namespace nd::reliability
