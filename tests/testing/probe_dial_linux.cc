// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "base/fd_lane.h"
#include "base/locate.h"
#include "provider/hand_off.h"
#include "tests/testing/probe_dial.h"

namespace nd::testing {

std::shared_ptr<grpc::Channel> Dial(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

std::string ConnectLane(const std::string& directory, UniqueFd* lane) {
  lane->reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = ClientSocketPath(directory, kLaneSocketName);
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (connect(lane->get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  std::byte buffer[4096];
  const Result<FdMessage> message = ReceiveWithFds(lane->get(), buffer, true);
  if (!message.ok() || message->size < sizeof(provider::TokenRecord)) return {};
  provider::TokenRecord record;
  std::memcpy(&record, buffer, sizeof(record));
  return std::string(reinterpret_cast<const char*>(record.token), sizeof(record.token));
}

}  // namespace nd::testing
