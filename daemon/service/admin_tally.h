// SPDX-License-Identifier: Apache-2.0
// Counts the calls of the admin socket by method and by how they were answered, where gRPC sends the answer.
//
// Any thread. Names that a client made up count as "other", so that nobody can grow the table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "grpcpp/support/server_interceptor.h"

namespace nd::service {

class AdminTally {
 public:
  // {method, status}: "KillConnection", "INVALID_HANDLE". Changes count by their outcome; a call that failed
  // by gRPC's own status, such as "INVALID_ARGUMENT".
  using Counts = std::map<std::pair<std::string, std::string>, std::uint64_t>;
  Counts counts() const;
  void Add(std::string_view method, std::string_view status);

 private:
  mutable std::mutex mutex_;
  Counts counts_;
};

// For grpc::ServerBuilder. `tally` outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CountCalls(AdminTally& tally);

}  // namespace nd::service
