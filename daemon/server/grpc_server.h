// SPDX-License-Identifier: Apache-2.0
// One gRPC server of the broker: its limits, health and reflection. Connections are given to it as
// descriptors.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "daemon/metrics/admin_tally.h"

namespace nd::service {

// `name` and `memory`: the resource quota. `tally` null: calls are not counted. Null: gRPC could not start
// it.
std::unique_ptr<grpc::Server> BuildGrpcServer(grpc::Service* service, const char* name, std::uint32_t memory,
                                              int max_message, AdminTally* tally);

}  // namespace nd::service
