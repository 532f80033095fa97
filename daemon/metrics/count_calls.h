// SPDX-License-Identifier: Apache-2.0
// Counts the calls of a gRPC server in an AdminTally, at the point where gRPC sends the response. Any thread.
#pragma once

#include <memory>

#include "daemon/metrics/admin_tally.h"
#include "grpcpp/support/server_interceptor.h"

namespace nd::service {

// Makes the interceptor for grpc::ServerBuilder. `tally` outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CountCalls(AdminTally& tally);

}  // namespace nd::service
