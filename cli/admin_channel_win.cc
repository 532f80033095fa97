// SPDX-License-Identifier: Apache-2.0
// gRPC 1.51 has no client for pipes, and takes sockets of others on POSIX systems alone. One end of a pair of
// sockets is the connection of gRPC, made of its inner parts, and a thread forwards between the other end and
// the pipe. deploy/windows/build.sh keeps the inner headers in grpc-inner beside the public ones.
#include "cli/admin_channel.h"

#include "base/os/object_win.h"

#include <grpc/grpc.h>

#include <cerrno>
#include <utility>

#include "base/os/socket.h"
#include "cli/pipe_relay_win.h"
#include "src/core/ext/transport/chttp2/transport/chttp2_transport.h"
#include "src/core/lib/config/core_configuration.h"
#include "src/core/lib/iomgr/endpoint.h"
#include "src/core/lib/iomgr/exec_ctx.h"
#include "src/core/lib/iomgr/socket_windows.h"
#include "src/core/lib/iomgr/tcp_windows.h"
#include "src/core/lib/surface/channel.h"
#include "src/core/lib/transport/transport.h"
#include "src/cpp/client/create_channel_internal.h"

namespace nd::cli {
namespace {

std::shared_ptr<grpc::Channel> ChannelOf(UniqueFd stream) {
  const auto socket = os::FindAs<os::SocketObject>(stream.get());
  if (!socket) return nullptr;
  grpc_core::ExecCtx context;
  const grpc_core::ChannelArgs args = grpc_core::CoreConfiguration::Get()
                                          .channel_args_preconditioning()
                                          .PreconditionChannelArgs(nullptr)
                                          .SetIfUnset(GRPC_ARG_DEFAULT_AUTHORITY, "localhost")
                                          // A list of every connection has no upper limit.
                                          .Set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
  grpc_endpoint* endpoint =
      grpc_tcp_create(grpc_winsocket_create(socket->Release(), "ndbroker"), "pipe:ndbroker");
  grpc_transport* transport = grpc_create_chttp2_transport(args, endpoint, /*is_client=*/true);
  auto channel = grpc_core::Channel::Create("pipe:ndbroker", args, GRPC_CLIENT_DIRECT_CHANNEL, transport);
  if (!channel.ok()) {
    grpc_transport_destroy(transport);
    errno = EPROTO;
    return nullptr;
  }
  grpc_chttp2_transport_start_reading(transport, nullptr, nullptr, nullptr);
  grpc_core::ExecCtx::Get()->Flush();
  return grpc::CreateChannelInternal("", channel->release()->c_ptr(), {});
}

}  // namespace

struct AdminChannel::Forwarding {
  PipeRelay relay;
};

AdminChannel::AdminChannel(UniqueFd connection) {
  ::grpc_init();  // Before its inner parts are used; the channel itself would start it later.
  UniqueFd ours, grpc;
  if (!os::MakeStreamPair(&ours, &grpc, /*blocking=*/false)) return;
  forwarding_.reset(new Forwarding{{std::move(connection), std::move(ours)}});
  channel_ = ChannelOf(std::move(grpc));
}

// The channel and its thread stay until the process ends: threads that end together can wait for each other
// (console.h). Nothing is forwarded any more, because the Wine server keeps the socket of a process for ever
// that ends in the middle of a poll, and takes all of a processor when bytes are unread (docs/windows.md).
AdminChannel::~AdminChannel() {
  if (forwarding_) forwarding_->relay.Stop();
  static_cast<void>(new std::shared_ptr<grpc::Channel>(std::move(channel_)));
  static_cast<void>(forwarding_.release());
}

}  // namespace nd::cli
