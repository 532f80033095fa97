// SPDX-License-Identifier: Apache-2.0
// gRPC 1.51 takes sockets of others on POSIX systems alone, and a port of the loopback address would be open
// for every program of the host. So this file makes the connection of its inner parts, as gRPC's own listener
// does after accept(). deploy/windows/build.sh keeps their headers in grpc-inner beside the public ones.
#include "daemon/server/grpc_connection.h"

#include "base/os/object_win.h"

#include <string>

#include "base/os/socket.h"
#include "daemon/ops/logging.h"
#include "src/core/ext/transport/chttp2/transport/chttp2_transport.h"
#include "src/core/lib/iomgr/endpoint.h"
#include "src/core/lib/iomgr/exec_ctx.h"
#include "src/core/lib/iomgr/socket_windows.h"
#include "src/core/lib/iomgr/tcp_windows.h"
#include "src/core/lib/surface/server.h"
#include "src/core/lib/transport/transport.h"

namespace nd::service {

void ServeConnection(grpc::Server& server, UniqueFd stream) {
  const std::string name = "pair:" + std::to_string(os::SocketNumber(stream.get()));
  const auto socket = os::FindAs<os::SocketObject>(stream.get());
  if (!socket)
    return ops::LogError("gRPC refused a connection: descriptor " + std::to_string(stream.get()) +
                         " is not a stream socket");
  grpc_core::ExecCtx context;
  grpc_core::Server* core = grpc_core::Server::FromC(server.c_server());
  grpc_endpoint* endpoint = grpc_tcp_create(grpc_winsocket_create(socket->Release(), "ndbroker"), name);
  grpc_transport* transport =
      grpc_create_chttp2_transport(core->channel_args(), endpoint, /*is_client=*/false);
  const grpc_error_handle error = core->SetupTransport(transport, nullptr, core->channel_args(), nullptr);
  if (!error.ok()) {
    ops::LogWarning("connection ended", "gRPC refused it: " + error.ToString());
    return grpc_transport_destroy(transport);
  }
  for (grpc_pollset* pollset : core->pollsets()) grpc_endpoint_add_to_pollset(endpoint, pollset);
  grpc_chttp2_transport_start_reading(transport, nullptr, nullptr, nullptr);
}

void OfferReflection() {}

}  // namespace nd::service
