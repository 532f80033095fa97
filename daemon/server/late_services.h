// SPDX-License-Identifier: Apache-2.0
// The services whose libraries take long to load: gRPC for sessions and administration, HTTP for metrics.
//
// ndbrokerd has them in a file of its own, lib/ndbroker/ndbrokerd-services.so beside its folder, and loads it
// while clients of the lane are served already: with gRPC, Protobuf and Abseil the program itself would start
// three times as long, and its clients wait for each restart.
//
// Threads as in services.h.
#pragma once

#include <cstdint>
#include <memory>

#include "base/unique_fd.h"
#include "daemon/server/records.h"
#include "daemon/server/services.h"

namespace nd::service {

class LateServices {
 public:
  // Listening. Empty: not wanted.
  struct Sockets {
    UniqueFd admin, metrics, broker;
  };

  virtual ~LateServices() = default;
  // While the loop runs. UNSUCCESSFUL: gRPC does not start.
  virtual Status Start(Sockets sockets) = 0;
  // As in Services.
  virtual void Proven(std::uint64_t cookie) = 0;
  virtual void StopFirst() = 0;
  virtual void StopLast() = 0;
  virtual void EndStreams() = 0;
};

// `host` and `records` outlive the result. Always succeeds.
Result<std::unique_ptr<LateServices>> MakeLateServices(const ServicesHost& host, Records& records);
// Takes MakeLateServices() from the file, on Windows from the program itself. UNSUCCESSFUL: the file is
// missing, is damaged or belongs to another build; the message names it and the remedy.
Result<std::unique_ptr<LateServices>> LoadLateServices(const ServicesHost& host, Records& records);

// The file's symbol kLateEntryName. The two must be of one build, because they share classes.
struct LateEntry {
  const char* version;
  Result<std::unique_ptr<LateServices>> (*make)(const ServicesHost& host, Records& records);
};
inline constexpr char kLateEntryName[] = "ndbrokerd_late_services";

}  // namespace nd::service
