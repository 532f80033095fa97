// SPDX-License-Identifier: Apache-2.0
// Two processes exchange data with stamps through queue pairs of the soft provider, without a broker. Each
// checks every byte. The same program runs on Linux and on Windows, so that one of them can talk to the
// other.
//
// usage: exchange listen FILE     writes its TCP port to FILE, and accepts one connection
//        exchange connect PORT
// Exit 0: all data was right, and both ends said goodbye.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/os/accept.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "provider/soft/transports.h"
#include "tests/windows/stamped_end.h"

namespace nd::provider::soft {
namespace {

HandOff OverTcp(UniqueFd socket, bool active) {
  HandOff hand_off;
  hand_off.record.transport = kIwarp;
  hand_off.record.fd_count = 1;
  hand_off.record.flags = kHandOffCrc | kHandOffConfirm | (active ? kHandOffActive : 0u);
  hand_off.record.read_inbound = hand_off.record.read_outbound = 16;
  hand_off.fds.push_back(std::move(socket));
  return hand_off;
}

UniqueFd Listen(const std::string& file) {
  const UniqueFd listener = os::ListenTcp(Address::V4({127, 0, 0, 1}, 0), 1);
  Require(static_cast<bool>(listener), "cannot listen");
  std::ofstream(file + ".new") << os::LocalAddress(listener.get()).port() << '\n';
  std::filesystem::rename(file + ".new", file);
  os::Watched wait[] = {{listener.get()}};
  Require(os::Wait(wait, kPatience) == 1, "nobody connected");
  return os::Accept(listener.get()).fd;
}

}  // namespace
}  // namespace nd::provider::soft

int main(int argc, char** argv) {
  using namespace nd::provider::soft;
  const std::string_view command = argc == 3 ? argv[1] : "";
  if (command != "listen" && command != "connect") {
    std::fprintf(stderr, "usage: exchange listen FILE | exchange connect PORT\n");
    return 2;
  }
  const bool active = command == "connect";
  nd::UniqueFd socket;
  if (active) {
    const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
    socket = nd::os::ConnectTcp("127.0.0.1", port, nd::SystemClock().Now() + kPatience).socket;
  } else {
    socket = Listen(argv[2]);
  }
  Require(static_cast<bool>(socket), "no connection");
  End(active).Run(OverTcp(std::move(socket), active));
  return 0;
}
