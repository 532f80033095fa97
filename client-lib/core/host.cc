// SPDX-License-Identifier: Apache-2.0
// The broker of this host and the providers of this build.
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "base/locate.h"
#include "base/os/descriptor.h"
#include "client-lib/core/carriers.h"
#include "client-lib/core/fork_guard.h"
#include "client-lib/core/locate.h"
#include "client-lib/core/open.h"
#include "provider/registry_qp.h"

namespace nd::client {
namespace {

// NDBROKER_SESSION: "grpc", for debugging with gRPC's own tools; unset, empty or "lane": the fd lane.
std::string_view WantedCarrier() {
  const char* wanted = EnvironmentVariable("NDBROKER_SESSION");
  return wanted == nullptr || std::string_view(wanted) == "lane" ? "" : wanted;
}

Result<std::unique_ptr<Carrier>> OpenSocketCarrier(std::string_view name, const Location& location,
                                                   Carrier::Sink* sink) {
  const OpenCarrier open = FindCarrier(name);
  if (open == nullptr) {
    return Status(StatusCode::kNotSupported,
                  "this program has nothing that carries a session by '" + std::string(name) +
                      "'; to use gRPC link libndbroker_grpc (CMake: ndbroker::client_grpc, pkg-config: "
                      "ndbroker-grpc), else unset NDBROKER_SESSION");
  }
  auto socket = ConnectToBroker(location, kBrokerSocketName, os::SocketKind::kStream);
  if (!socket.ok()) return socket.status();
  os::SetNonBlocking(socket->get());
  return open(socket->release(), sink);
}

}  // namespace

Environment HostEnvironment(const std::string& broker, bool progress_thread) {
  Environment environment;
  environment.connect = [location = LocateBroker(broker)]() -> Result<Channel> {
    // The locks and threads of a carrier exist only in the parent, so a call might hang.
    if (ForkedAfterUse()) {
      return Status(StatusCode::kDeviceNotReady,
                    "this process was forked after its parent had used the library; call exec first, or fork "
                    "before the first use");
    }
    auto lane = ConnectToBroker(location, kLaneSocketName, os::SocketKind::kMessages);
    if (!lane.ok()) return lane.status();
    Channel channel;
    channel.lane = std::move(lane).value();
    channel.open_carrier = [location](BrokerLane& session_lane,
                                      Carrier::Sink* sink) -> Result<std::unique_ptr<Carrier>> {
      const std::string_view wanted = WantedCarrier();
      if (wanted.empty() && session_lane.takes_messages()) {
        return std::unique_ptr<Carrier>(OpenLaneCarrier(session_lane, sink));
      }
      UseUnforkable();
      // A broker of the first version accepts messages by gRPC only.
      return OpenSocketCarrier(wanted.empty() ? "grpc" : wanted, location, sink);
    };
    return channel;
  };
  environment.open_device = [progress_thread](const AdapterInfo& info) {
    UseUnforkable();  // A child may list adapters after its parent did, because nothing of that remains.
    return provider::OpenDevice(info, {.progress_thread = progress_thread});
  };
  return environment;
}

}  // namespace nd::client
