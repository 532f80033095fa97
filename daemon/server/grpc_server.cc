// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/grpc_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <mutex>
#include <utility>
#include <vector>

#include "daemon/metrics/count_calls.h"
#include "daemon/server/grpc_connection.h"

namespace nd::service {

std::unique_ptr<grpc::Server> BuildGrpcServer(grpc::Service* service, const char* name, std::uint32_t memory,
                                              int max_message, AdminTally* tally) {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    OfferReflection();
  });
  grpc::ResourceQuota quota(name);
  quota.Resize(memory);
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(max_message);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);  // Used by reflection only.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  if (tally != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(CountCalls(*tally));
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
  }
  return builder.BuildAndStart();
}

}  // namespace nd::service
