// SPDX-License-Identifier: Apache-2.0
// Three processes on Windows: one has the part of the broker, and hands both ends of a connection over shared
// memory to two others, which exchange data with stamps.
//
// usage: hand_over give PATH     waits for two clients on the pipe of PATH, and until they have gone
//        hand_over take PATH
// Exit 0: all data was right.
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/os/accept.h"
#include "base/os/self.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "provider/soft/segment.h"
#include "provider/soft/transports.h"
#include "tests/windows/stamped_end.h"

// Behind the others: <windows.h> makes macros of names that they use.
#include "base/os/pipe_listener_win.h"

namespace nd::provider::soft {
namespace {

bool Readable(int fd) {
  os::Watched wait[] = {{fd}};
  return os::Wait(wait, 2 * kPatience) == 1;
}

void Give(const std::string& path) {
  auto made = os::PipeListener::Make(os::PipeName(path));
  Require(made != nullptr, "cannot listen");
  const UniqueFd listener(os::PutObject(std::move(made)));
  UniqueFd lanes[2];
  for (UniqueFd& lane : lanes) {
    Require(Readable(listener.get()), "a client is missing");
    lane = os::Accept(listener.get()).fd;
    Require(static_cast<bool>(lane), "a client has gone");
    Require(os::PeerUser(lane.get()) == os::UserNumber(), "the client is of another user");
    const DWORD client = ::GetProcessId(os::FindAs<os::PipeObject>(lane.get())->peer());
    Require(client != 0 && client != os::ProcessNumber(), "the client is not another process");
  }
  UniqueFd ends[2];
  Need(MakeSeqpacketPair(&ends[0], &ends[1]));
  const UniqueFd segment = Need(CreateSealedMemfd("segment", kSegmentSize));
  for (int i = 0; i < 2; ++i) {
    HandOffRecord record = SharedRecord(kSegmentSize);
    record.read_inbound = record.read_outbound = 16;
    record.flags = kHandOffConfirm | kHandOffShareMemory | (i == 0 ? kHandOffActive : 0u);
    const int given[] = {segment.get(), ends[i].get()};
    Need(SendWithFds(lanes[i].get(), std::as_bytes(std::span(&record, 1)), given));
    ends[i].reset();
  }
  for (const UniqueFd& lane : lanes) {
    Require(Readable(lane.get()), "a client does not end");
    std::byte none[1];
    Require(ReceiveWithFds(lane.get(), none, false).code() == StatusCode::kConnectionDisconnected,
            "a client sent something");
  }
}

void Take(const std::string& path) {
  const Time deadline = SystemClock().Now() + kPatience;
  UniqueFd lane;
  while (!lane && SystemClock().Now() < deadline) {
    lane = os::ConnectLocal(path, os::SocketKind::kMessages, kPatience);
    if (!lane) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Require(static_cast<bool>(lane), "no broker");
  HandOff hand_off;
  FdMessage got =
      Need(ReceiveWithFds(lane.get(), std::as_writable_bytes(std::span(&hand_off.record, 1)), true));
  Require(got.size == sizeof hand_off.record, "the record has another length");
  hand_off.fds = std::move(got.fds);
  const bool active = (hand_off.record.flags & kHandOffActive) != 0;
  End(active).Run(std::move(hand_off));
}

}  // namespace
}  // namespace nd::provider::soft

int main(int argc, char** argv) {
  const std::string_view command = argc == 3 ? argv[1] : "";
  if (command == "give") {
    nd::provider::soft::Give(argv[2]);
  } else if (command == "take") {
    nd::provider::soft::Take(argv[2]);
  } else {
    std::fprintf(stderr, "usage: hand_over give PATH | hand_over take PATH\n");
    return 2;
  }
  return 0;
}
