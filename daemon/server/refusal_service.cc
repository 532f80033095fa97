// SPDX-License-Identifier: Apache-2.0
// A server of its own, because gRPC cannot refuse a whole connection with a message.
#include "daemon/server/refusal_service.h"

#include <utility>

namespace nd::service {
namespace {

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

std::unique_ptr<grpc::Server> RefusalService::Start() {
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(this);
  builder.SetMaxReceiveMessageSize(64 * 1024);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  return builder.BuildAndStart();
}

grpc::ServerGenericBidiReactor* RefusalService::CreateReactor(grpc::GenericCallbackServerContext*) {
  return new Refusal(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, why_));
}

}  // namespace nd::service
