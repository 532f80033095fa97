// SPDX-License-Identifier: Apache-2.0
// The channel of ndctl, because gRPC has no client for pipes. It does not connect again; a test forgets the
// channels of a broker that it ends.
#include "base/locate.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "cli/admin_channel.h"
#include "provider/hand_off.h"
#include "tests/testing/probe_dial.h"

#include <cstring>

namespace nd::testing {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);

}  // namespace

std::shared_ptr<grpc::Channel> Dial(const std::string& socket) {
  UniqueFd pipe = os::ConnectLocal(socket, os::SocketKind::kStream, kPatience);
  // Port 9 of this host: nobody serves gRPC there.
  if (!pipe) return grpc::CreateChannel("ipv4:127.0.0.1:9", grpc::InsecureChannelCredentials());
  auto* const kept = new cli::AdminChannel(std::move(pipe));  // Until the probe ends, as its threads.
  return kept->get();
}

std::string ConnectLane(const std::string& directory, UniqueFd* lane) {
  *lane =
      os::ConnectLocal(ClientSocketPath(directory, kLaneSocketName), os::SocketKind::kMessages, kPatience);
  if (!*lane) return {};
  os::Watched watched{.fd = lane->get()};
  std::byte buffer[4096];
  if (os::Wait({&watched, 1}, kPatience) != 1) return {};
  const os::ReceivedMessage message = os::ReceiveMessage(lane->get(), buffer);
  if (message.size < static_cast<std::ptrdiff_t>(sizeof(provider::TokenRecord))) return {};
  provider::TokenRecord record;
  std::memcpy(&record, buffer, sizeof(record));
  return std::string(reinterpret_cast<const char*>(record.token), sizeof(record.token));
}

}  // namespace nd::testing
