// SPDX-License-Identifier: Apache-2.0
// Opening with what is really there: this host's broker and the providers of this build.
#include <sys/socket.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/locate.h"
#include "client-lib/src/adapter_impl.h"
#include "client-lib/src/fork_guard.h"
#include "client-lib/src/locate.h"
#include "client-lib/src/open.h"
#include "nd/adapter.h"
#include "provider/registry_qp.h"

namespace nd {

using client::Op;
using client::OpKind;

namespace {

// The way round for debugging with gRPC's own tools.
bool GrpcWanted() {
  const char* wanted = std::getenv("NDBROKER_SESSION");
  return wanted != nullptr && std::string_view(wanted) == "grpc";
}

client::Environment RealEnvironment(const OpenOptions& options) {
  client::Environment environment;
  environment.connect = [location = client::LocateBroker(options.broker)]() -> Result<client::Channel> {
    // gRPC's locks and threads are the parent's: whatever it is asked here, it may never answer.
    if (client::ForkedAfterUse()) {
      return Status(StatusCode::kDeviceNotReady,
                    "this process was forked after its parent had used the library; call exec first, or fork "
                    "before the first use");
    }
    client::UseUnforkable();
    auto lane = client::ConnectToBroker(location, kLaneSocketName, SOCK_SEQPACKET);
    if (!lane.ok()) return lane.status();
    client::Channel channel;
    channel.lane = std::move(lane).value();
    channel.open_stream =
        [location](client::Lane& session_lane,
                   client::SessionStream::Sink* sink) -> Result<std::unique_ptr<client::SessionStream>> {
      if (session_lane.takes_messages() && !GrpcWanted()) return client::OpenLaneStream(session_lane, sink);
      auto socket = client::ConnectToBroker(location, kBrokerSocketName, SOCK_STREAM);
      if (!socket.ok()) return socket.status();
      return client::OpenGrpcStream(std::move(socket).value(), sink);
    };
    return channel;
  };
  environment.open_device = [progress_thread = options.progress_thread](const AdapterInfo& info) {
    return provider::OpenDevice(info, {.progress_thread = progress_thread});
  };
  return environment;
}

}  // namespace

Result<Adapter> Adapter::Open(const OpenOptions& options) {
  return client::OpenAdapter(options, RealEnvironment(options));
}

Result<std::vector<AdapterInfo>> Adapter::QueryAdapters(const OpenOptions& options) {
  auto session = client::OpenSession(options, RealEnvironment(options), false);
  if (!session.ok()) return session.status();
  auto reply = (*session)->Call(Op(OpKind::kListAdapters), 0);
  (*session)->CloseAll();
  if (!reply.ok()) return reply.status();
  return std::move(reply->adapters);
}

Result<std::vector<Address>> Adapter::QueryAddressList(const OpenOptions& options) {
  auto adapters = QueryAdapters(options);
  if (!adapters.ok()) return adapters.status();
  std::vector<Address> addresses;
  for (const AdapterInfo& info : *adapters) {
    addresses.insert(addresses.end(), info.addresses.begin(), info.addresses.end());
  }
  return addresses;
}

}  // namespace nd
