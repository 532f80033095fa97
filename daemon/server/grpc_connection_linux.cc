// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/grpc_connection.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/server_posix.h>

namespace nd::service {

void ServeConnection(grpc::Server& server, UniqueFd stream) {
  grpc::AddInsecureChannelFromFd(&server, stream.release());
}

void OfferReflection() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
}

}  // namespace nd::service
