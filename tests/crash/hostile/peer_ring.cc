// SPDX-License-Identifier: Apache-2.0
// The attacker connects to the victim with the client library and then writes into the segment that it
// shares with the victim, while messages go both ways.
#include <fcntl.h>
#include <nd/nd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "provider/soft/qp/segment_layout.h"
#include "tests/crash/hostile/peer_attacks.h"

namespace nd::hostile {
namespace {

using provider::soft::kSegmentSize;
using provider::soft::Segment;

Address At(int host, std::uint16_t port) {
  return Address::Parse("127.0.0." + std::to_string(host)).value().WithPort(port);
}

// A connection to the victim in shared memory; segment is null when it was not made.
class Ring {
 public:
  explicit Ring(const Target& target) {
    OpenOptions options;
    options.broker = target.directory;
    options.application = "ring";
    Result<Adapter> adapter = Adapter::Open(options);
    if (!adapter.ok()) return;
    adapter_ = std::move(adapter).value();
    buffer_ = adapter_.AllocateBuffer(65536).value();
    region_ = adapter_.Register(buffer_, kAllowLocalWrite).value();
    queue_ = adapter_.CreateCompletionQueue(256).value();
    Result<QueuePair> pair = adapter_.CreateQueuePair({.receive_cq = &queue_, .initiator_cq = &queue_});
    Result<Connector> connector = adapter_.CreateConnector();
    if (!pair.ok() || !connector.ok()) return;
    pair_ = std::move(pair).value();
    connector_ = std::move(connector).value();
    Status status = connector_.Bind(At(target.host, 0));
    if (status.ok()) status = connector_.Connect(pair_, At(target.host, kVictimPort));
    const auto told = connector_.GetPrivateData();
    if (told.ok() && told->size() >= 12) {
      std::memcpy(&token_, told->data(), 4);
      std::memcpy(&address_, told->data() + 4, 8);
    }
    if (status.ok()) status = connector_.CompleteConnect();
    if (status.ok()) Find();
  }
  Segment* segment() const { return segment_; }
  int fd() const { return fd_; }
  std::uint32_t token() const { return token_; }
  // Messages and Writes as far as the connection takes them.
  bool Work() {
    std::array<Completion, 32> done;
    while (queue_.Poll(done) != 0) {
    }
    const std::array<Sge, 1> bytes{region_.Slice(buffer_.data(), 2048)};
    const Status sent = pair_.Send(nullptr, bytes, kOpSilentSuccess);
    const Status wrote = pair_.Write(nullptr, bytes, address_, token_, kOpSilentSuccess);
    return sent != StatusCode::kConnectionInvalid && wrote != StatusCode::kConnectionInvalid &&
           ++rounds_ < 2000;
  }

 private:
  // The library does not give its segment away, but it is in this process.
  void Find() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long first = 0, last = 0;
      if (line.find("ndbroker-pair") == std::string::npos ||
          std::sscanf(line.c_str(), "%lx-%lx", &first, &last) != 2 || last - first < kSegmentSize) {
        continue;
      }
      segment_ = reinterpret_cast<Segment*>(first);
    }
    if (segment_ == nullptr) return;
    for (int fd = 3; fd < 256; ++fd) {
      struct stat info {};
      if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
          static_cast<std::size_t>(info.st_size) == sizeof(Segment)) {
        fd_ = fd;
      }
    }
  }
  Adapter adapter_;
  Buffer buffer_;
  MemoryRegion region_;
  CompletionQueue queue_;
  QueuePair pair_;
  Connector connector_;
  Segment* segment_ = nullptr;
  std::uint32_t token_ = 0;
  std::uint64_t address_ = 0;
  int fd_ = -1;
  int rounds_ = 0;
};

// Makes connections in turn; `spoil` runs at full rate beside the traffic of each.
template <typename Spoil>
[[noreturn]] void Repeat(const Target& target, Spoil spoil) {
  for (;;) {
    Ring ring(target);
    if (ring.segment() == nullptr) continue;
    Underway();
    bool busy = true;
    while (busy) {
      busy = ring.Work();
      spoil(ring);
    }
  }
}
std::mt19937_64& Random() {
  static std::mt19937_64 random(13);
  return random;
}

}  // namespace

void FlipBits(const Target& target) {
  Repeat(target, [](Ring& ring) {
    auto* words = reinterpret_cast<volatile std::uint32_t*>(ring.segment());
    for (int i = 0; i < 64; ++i) {
      const std::size_t place = Random()() % (sizeof(Segment) / 4);
      words[place] = words[place] ^ 1u << (Random()() % 32);
    }
  });
}

// Changes the control blocks and the heads of slots, which the other side reads all the time.
void FlipIndexes(const Target& target) {
  Repeat(target, [](Ring& ring) {
    Segment& segment = *ring.segment();
    provider::soft::SideControl& own = segment.side[0];
    own.consumed += static_cast<std::uint32_t>(Random()());
    own.armed = static_cast<std::uint32_t>(Random()() % 3);
    own.end_position = static_cast<std::uint32_t>(Random()());
    provider::soft::Slot& slot = segment.ring[0].slots[Random()() % provider::soft::kSlots];
    slot.kind = static_cast<provider::soft::RecordKind>(Random()() % 9);
    slot.flags = static_cast<std::uint8_t>(Random()());
    slot.length = static_cast<std::uint32_t>(Random()() % 2 == 0 ? Random()() : Random()() % 70'000);
    slot.place = Random()();
    slot.address = Random()();
    slot.stamp = static_cast<std::uint32_t>(Random()() % 4);
  });
}

void PunchHoles(const Target& target) {
  Repeat(target, [](Ring& ring) {
    if (ring.fd() < 0) {
      std::memset(static_cast<void*>(ring.segment()), 0, sizeof(Segment));
      return;
    }
    ::fallocate(ring.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(Segment));
    if (::ftruncate(ring.fd(), 0) == 0) Broken("a shared segment was cut");
    if (::fcntl(ring.fd(), F_ADD_SEALS, F_SEAL_WRITE) == 0) Broken("a shared segment took another seal");
  });
}

// Valid records as fast as this processor makes them, whatever the other side has consumed.
void ProduceForEver(const Target& target) {
  Repeat(target, [position = std::uint32_t{0}](Ring& ring) mutable {
    for (int i = 0; i < 4096; ++i, ++position) {
      provider::soft::Slot& slot = ring.segment()->ring[0].slots[position % provider::soft::kSlots];
      slot.kind = provider::soft::RecordKind::kWrite;
      slot.flags = provider::soft::kInlineBytes;
      slot.length = 0;
      slot.token = ring.token();
      slot.stamp.store(provider::soft::StampOf(position), std::memory_order_release);
    }
  });
}

// Pretends for ever to access the victim's memory directly, so that deregistration waits.
void ClaimAccess(const Target& target) {
  Repeat(target, [](Ring& ring) { ring.segment()->side[0].hazard = ring.token(); });
}

void StopInTheMiddle(const Target& target) {
  std::signal(SIGCHLD, SIG_IGN);
  for (;;) {
    const pid_t child = ForkWithMe();
    if (child == 0) {
      Ring ring(target);
      for (int i = 0; ring.segment() != nullptr && i < 50 && ring.Work(); ++i) {
      }
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    ::usleep(100'000);
    Underway();
    ::kill(child, SIGKILL);
  }
}

void DieInTheMiddle(const Target& target) {
  std::signal(SIGCHLD, SIG_IGN);
  for (;;) {
    const pid_t child = ForkWithMe();
    if (child == 0) {
      Ring ring(target);
      while (ring.segment() != nullptr && ring.Work()) {
      }
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(Random()() % 20'000));
    ::kill(child, SIGKILL);
    Underway();
  }
}

// A new segment contains nothing of a former connection.
void LookForOldData(const Target& target) {
  for (;;) {
    Ring ring(target);
    if (ring.segment() == nullptr) continue;
    for (const std::byte byte : ring.segment()->ring[0].data) {
      if (byte == std::byte{}) continue;
      Broken("a new segment contains data");
      break;
    }
    Underway();
    while (ring.Work()) {
    }
  }
}

}  // namespace nd::hostile
