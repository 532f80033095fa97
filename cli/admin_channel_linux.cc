// SPDX-License-Identifier: Apache-2.0
#include "cli/admin_channel.h"

#include <grpcpp/create_channel_posix.h>

#include "base/os/descriptor.h"

namespace nd::cli {

struct AdminChannel::Forwarding {};  // gRPC takes the socket itself.

AdminChannel::AdminChannel(UniqueFd connection) {
  os::SetNonBlocking(connection.get());
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // A list of every connection has no upper limit.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  channel_ = grpc::CreateCustomInsecureChannelFromFd("ndbroker", connection.release(), arguments);
}

AdminChannel::~AdminChannel() = default;

}  // namespace nd::cli
