// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/memfd.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/ndb_header.h"
#include "tests/crash/hostile/client_attacks.h"
#include "tests/crash/hostile/raw_lane.h"
#include "tests/crash/hostile/raw_peer.h"

namespace nd::hostile {
namespace {

bool Succeeded(const pb::Completion& done) {
  return done.op_id() != 0 && done.status().code() == kSuccess;
}

pb::ClientMessage BindTo(std::uint64_t handle, int host, std::uint32_t port) {
  pb::ClientMessage m;
  m.mutable_bind()->set_handle(handle);
  SetAddress(host, port, m.mutable_bind()->mutable_local());
  return m;
}

}  // namespace

void StealPorts(const Target& target) {
  for (;;) {
    RawLane lane(target.directory);
    for (int i = 0; i < 1000 && lane.open(); ++i) {
      if (Succeeded(lane.Ask(BindTo(lane.Connector(), target.host, kHonestPort))))
        Broken("another user's port was bound");
      if (lane.Listener(target.host, kHonestPort) != 0) Broken("another user's listener was doubled");
      pb::ClientMessage shared;
      shared.mutable_create_shared_endpoint()->set_adapter(lane.adapter());
      SetAddress(target.host, kHonestPort, shared.mutable_create_shared_endpoint()->mutable_local());
      if (Succeeded(lane.Ask(shared))) Broken("another user's port became a shared endpoint");
      Underway();
    }
  }
}

void TakeAllPorts(const Target& target) {
  RawLane lane(target.directory);
  for (int i = 0; i < 20'000; ++i) {
    if (!Succeeded(lane.Ask(BindTo(lane.Connector(), target.host, 0)))) break;
  }
  Underway();
  for (;;) static_cast<void>(lane.Ask(BindTo(lane.Connector(), target.host, 0)));
}

// Calls every operation that takes a handle with handles that this session has not made: random ones, and
// neighbours of its own.
void GuessHandles(const Target& target) {
  RawLane lane(target.directory);
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t own = lane.Connector();
  for (;;) {
    const std::uint64_t guess = random() % 2 == 0 ? random() : own ^ (1 + random() % 0xFFFF);
    std::vector<pb::ClientMessage> messages(8);
    messages[0].mutable_close()->set_handle(guess);
    messages[1].mutable_cancel()->set_handle(guess);
    messages[2].mutable_get_local_address()->set_handle(guess);
    messages[3].mutable_get_peer_address()->set_connector(guess);
    messages[4].mutable_disconnect()->set_connector(guess);
    messages[5].mutable_reject()->set_connector(guess);
    messages[6].mutable_get_private_data()->set_connector(guess);
    messages[7] = BindTo(guess, target.host, 0);
    for (const pb::ClientMessage& message : messages) {
      if (Succeeded(lane.Ask(message))) Broken("a guessed handle was accepted");
    }
    Underway();
    if (!lane.open() || lane.Connector() == 0) lane = RawLane(target.directory);
  }
}

void ForgeReattach(const Target& target) {
  RawLane lane(target.directory);
  const std::uint64_t pair = lane.QueuePair();
  std::mt19937 random(1);
  for (;;) {
    pb::ClientMessage message;
    pb::Reattach& op = *message.mutable_reattach();
    op.set_adapter(lane.adapter());
    op.set_queue_pair(pair);
    op.set_passive(random() % 2 == 0);
    SetAddress(target.host, kHonestPort, op.mutable_local());
    SetAddress(target.host, static_cast<std::uint32_t>(1024 + random() % 60000), op.mutable_remote());
    op.set_proof(std::string(16, static_cast<char>(random())));
    if (Succeeded(lane.Ask(message))) Broken("a forged connection was believed");
    Underway();
  }
}

// The listener receives its requests as events and never answers.
void ConnectToMyself(const Target& target) {
  RawLane lane(target.directory);
  const auto port = static_cast<std::uint32_t>(10'000 + target.number);
  if (lane.Listener(target.host, port, true) == 0) Broken("the attacker cannot listen");
  for (;;) {
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t connector = lane.Connector(), pair = lane.QueuePair();
      if (connector == 0 || pair == 0) break;
      static_cast<void>(lane.Send(RawLane::ConnectTo(connector, pair, target.host, port)));
      Underway();
    }
    while (lane.Receive().kind_case() != pb::ServerMessage::KIND_NOT_SET) {
    }
    lane = RawLane(target.directory);
    static_cast<void>(lane.Listener(target.host, port, true));
  }
}

// Fills the honest tenant's backlog with requests that are withdrawn before they are accepted.
void ConnectToTheHonest(const Target& target) {
  for (;;) {
    RawLane lane(target.directory);
    for (int i = 0; i < 16; ++i) {
      const std::uint64_t connector = lane.Connector(), pair = lane.QueuePair();
      static_cast<void>(lane.Send(RawLane::ConnectTo(connector, pair, target.host, kVictimPort)));
    }
    Underway();
  }
}

void HoldAndDie(const Target& target) {
  for (;;) {
    RawLane lane(target.directory);
    for (int i = 0; i < 4000; ++i) {
      if (lane.Connector() == 0) break;
    }
    Underway();
  }
}

void RememberLists(const Target& target) {
  std::vector<std::unique_ptr<RawLane>> lanes;
  for (int i = 0; i < 40; ++i) lanes.push_back(std::make_unique<RawLane>(target.directory));
  for (;;) {
    for (const auto& lane : lanes) {
      pb::ClientMessage list;
      list.mutable_list_adapters();
      for (int i = 0; i < 64; ++i) static_cast<void>(lane->Ask(list));
    }
    Underway();
  }
}

void OccupyMemory(const Target& target) {
  for (;;) {
    RawLane lane(target.directory);
    // The broker makes a page of counters for every 256 queue pairs.
    for (int i = 0; i < 4096; ++i) {
      if (lane.QueuePair() == 0) break;
    }
    std::vector<void*> maps;
    for (const UniqueFd& fd : lane.TakeDescriptors()) {
      struct stat info {};
      if (::fstat(fd.get(), &info) != 0 || info.st_size == 0) continue;
      const auto size = static_cast<std::size_t>(info.st_size);
      void* map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
      if (map != MAP_FAILED) std::memset(map, 0xFF, size);
    }
    Underway();
  }
}

// Tries every way in which a process can change memory that the broker maps.
void TamperWithPages(const Target& target) {
  RawLane lane(target.directory);
  static_cast<void>(lane.QueuePair());
  const std::vector<UniqueFd> pages = lane.TakeDescriptors();
  if (pages.empty()) Broken("a queue pair came without a page of counters");
  const int fd = pages.empty() ? -1 : pages[0].get();
  // When a pool of huge pages is used up, each process that maps memory of it gets a SIGBUS.
  struct statfs where {};
  if (::fstatfs(fd, &where) != 0 || where.f_type == 0x958458f6)
    Broken("memory of the broker is in huge pages");
  struct stat info {};
  ::fstat(fd, &info);
  const auto size = static_cast<std::size_t>(info.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::mt19937 random(7);
  for (;;) {
    if (::ftruncate(fd, 0) == 0 || ::ftruncate(fd, info.st_size * 2) == 0)
      Broken("memory that the broker maps changed its size");
    if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 || ::fcntl(fd, F_ADD_SEALS, 0x10 /* FUTURE_WRITE */) == 0)
      Broken("memory of the broker took another seal");
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, info.st_size);
    ::fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK | O_APPEND);
    if (map != MAP_FAILED) {
      auto* words = static_cast<volatile std::uint32_t*>(map);
      for (int i = 0; i < 1000; ++i) words[random() % (size / 4)] = static_cast<std::uint32_t>(random());
    }
    Underway();
  }
}

// A TCP connection to a peer of the attacker that reads nothing. The socket is full and lingers for a minute,
// and the attacker closes it first, so that the broker's close is the last one.
void LingerAndGo(const Target& target) {
  const int own = 40 + target.number;
  const UniqueFd listening = ListenOnWire(own);
  if (!listening) Broken("the attacker cannot listen on the wire");
  std::vector<UniqueFd> kept;
  for (;;) {
    RawLane lane(target.directory);
    for (int i = 0; i < 20 && lane.open(); ++i) {
      const std::uint64_t connector = lane.Connector(), pair = lane.QueuePair();
      pb::ClientMessage connect = RawLane::ConnectTo(connector, pair, target.host, 9000);
      SetAddress(own, 9000, connect.mutable_connect()->mutable_remote());
      static_cast<void>(lane.Send(connect));
      kept.push_back(AnswerOnWire(listening.get()));
      const pb::ServerMessage connected = lane.Receive();
      if (connected.completion().status().code() != kSuccess) continue;
      pb::ClientMessage complete;
      complete.mutable_complete_connect()->set_connector(connector);
      lane.kept.clear();
      static_cast<void>(lane.Ask(complete));
      std::vector<UniqueFd> transport = lane.TakeDescriptors();
      for (const UniqueFd& fd : transport) {
        const linger minute{1, 60};
        ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &minute, sizeof minute);
        ::fcntl(fd.get(), F_SETFL, 0);  // Without O_NONBLOCK, which both copies share.
        std::array<char, 65536> bytes{};
        while (::send(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        }
      }
      Underway();
      // A close of ours would linger as well; a thread of its own waits for it.
      std::thread([fds = std::move(transport)]() mutable { fds.clear(); }).detach();
    }
    if (kept.size() > 200) kept.clear();
  }
}

}  // namespace nd::hostile
