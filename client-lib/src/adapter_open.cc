// SPDX-License-Identifier: Apache-2.0
// Opens adapters with the broker of this host and the providers of this build.
#include <sys/socket.h>

#include <string_view>
#include <utility>

#include "base/environment.h"
#include "base/locate.h"
#include "client-lib/src/adapter_impl.h"
#include "client-lib/src/carriers.h"
#include "client-lib/src/fork_guard.h"
#include "client-lib/src/locate.h"
#include "client-lib/src/open.h"
#include "nd/adapter.h"
#include "provider/registry_qp.h"

namespace nd {

namespace {

// NDBROKER_SESSION: "grpc", for debugging with gRPC's own tools; unset, empty or "lane": the fd lane.
std::string_view WantedCarrier() {
  const char* wanted = EnvironmentVariable("NDBROKER_SESSION");
  return wanted == nullptr || std::string_view(wanted) == "lane" ? "" : wanted;
}

Result<std::unique_ptr<Carrier>> OpenSocketCarrier(std::string_view name, const client::Location& location,
                                                   Carrier::Sink* sink) {
  const OpenCarrier open = client::FindCarrier(name);
  if (open == nullptr) {
    return Status(StatusCode::kNotSupported,
                  "this program has nothing that carries a session by '" + std::string(name) +
                      "'; to use gRPC link libndbroker_grpc (CMake: ndbroker::client_grpc, pkg-config: "
                      "ndbroker-grpc), else unset NDBROKER_SESSION");
  }
  auto socket = client::ConnectToBroker(location, kBrokerSocketName, SOCK_STREAM);
  if (!socket.ok()) return socket.status();
  return open(socket->release(), sink);
}

client::Environment RealEnvironment(const OpenOptions& options) {
  client::Environment environment;
  environment.connect = [location = client::LocateBroker(options.broker)]() -> Result<client::Channel> {
    // The locks and threads of a carrier exist only in the parent, so a call might hang.
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
    channel.open_carrier = [location](client::Lane& session_lane,
                                      Carrier::Sink* sink) -> Result<std::unique_ptr<Carrier>> {
      const std::string_view wanted = WantedCarrier();
      if (wanted.empty() && session_lane.takes_messages()) return client::OpenLaneCarrier(session_lane, sink);
      // A broker of the first version accepts messages by gRPC only.
      return OpenSocketCarrier(wanted.empty() ? "grpc" : wanted, location, sink);
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
  auto reply = (*session)->Call(session::ListAdaptersOp{}, 0);
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
