// SPDX-License-Identifier: Apache-2.0
// Both ends of the fd lane: a broker that sends anything to the client, and a client that sends anything to
// the broker, with any number of descriptors.
//
// Input: a header byte (1: the end of the broker is under test, 2: its client acknowledges every record, 4:
// the client holds its session on the lane), then records: number and kind of descriptors (low four bits,
// high four), length, and a datagram of that length.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "client-lib/core/broker_lane.h"
#include "daemon/service/client_lane.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

// The descriptors that a hostile end can send; made once.
struct Passed {
  UniqueFd page =
      CreateSealedMemfd("fuzz-page", sizeof(provider::QpCounters) * provider::kCounterSlotsPerPage).value();
  UniqueFd small = CreateSealedMemfd("fuzz-small", 4096).value();
  UniqueFd unsealed{memfd_create("fuzz-unsealed", MFD_CLOEXEC)};
  UniqueFd null{open("/dev/null", O_RDWR | O_CLOEXEC)};
  UniqueFd event{eventfd(0, EFD_CLOEXEC)};
  int Of(unsigned kind) const {
    const int fds[] = {null.get(), page.get(), small.get(), unsealed.get(), event.get()};
    return fds[kind % 5];
  }
};

// Returns the lowest free descriptor; a difference before and after shows a leak.
int NextFree() {
  const int fd = dup(0);
  close(fd);
  return fd;
}

// Without the limit kMaxFdsPerMessage, because a hostile end does not observe it.
void SendRaw(int socket, std::span<const std::uint8_t> bytes, const Passed& passed, unsigned count,
             unsigned kind) {
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  iovec io{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  if (count != 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* cmsg = CMSG_FIRSTHDR(&message);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (unsigned i = 0; i < count; ++i) {
      const int fd = passed.Of(i == 0 ? kind : kind >> 1);
      std::memcpy(CMSG_DATA(cmsg) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  [[maybe_unused]] const ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void RunClient(Input& input, const Passed& passed) {
  UniqueFd broker, mine;
  Require(MakeSeqpacketPair(&broker, &mine).ok(), "a pair of sockets");
  client::BrokerLane lane(std::move(mine));
  bool first = true, broken = false;
  std::size_t acknowledged = 0, good = 0;
  std::uint64_t last_id = 0;
  while (!input.empty() && !broken) {
    const auto fds = input.Number();
    const auto bytes = input.Take(input.Number());
    if (bytes.empty()) continue;
    SendRaw(broker.get(), bytes, passed, fds & 0x0F, fds >> 4);
    if (std::exchange(first, false)) {
      const auto token = lane.ReadToken(std::chrono::steady_clock::now());
      Require(token.ok() ? token->size() == 16 : !token.status().message().empty(), "a token, or why not");
      broken = !token.ok();
      continue;
    }
    const Status status = lane.Drain();
    broken = !status.ok();
    if (broken) {
      Require(!status.message().empty(), "a broken lane says why");
      continue;
    }
    ++good;
    provider::AckRecord ack;
    for (;;) {
      const auto got = ReceiveWithFds(broker.get(), std::as_writable_bytes(std::span(&ack, 1)), false);
      if (!got.ok()) break;
      Require(got->size == sizeof ack && ack.magic == provider::AckRecord::kMagic && got->fds.empty(),
              "only acknowledgements go to the broker");
      last_id = ack.id;
      ++acknowledged;
    }
    Require(acknowledged == good, "what is taken is acknowledged, each once");
    if (auto hand_off = lane.Take(last_id)) {
      Require(hand_off->record.fd_count == hand_off->fds.size(), "a hand-over has its descriptors");
      Require(!lane.Take(last_id).has_value(), "and is there once");
    }
  }
  for (std::uint32_t slot = 0; slot < 1024; slot += 255) {
    if (provider::QpCounters* counters = lane.counters()->Slot(slot)) counters->errors = slot;
  }
}

// Everything is sent before the first read, and then the end is closed.
void RunCarrying(Input& input, const Passed& passed) {
  UniqueFd broker, mine;
  Require(MakeSeqpacketPair(&broker, &mine).ok(), "a pair of sockets");
  fcntl(mine.get(), F_SETFL, fcntl(mine.get(), F_GETFL) & ~O_NONBLOCK);
  client::BrokerLane lane(std::move(mine));
  lane.CarryMessages();
  std::size_t room = 64;  // Less than the capacity of a socket.
  while (!input.empty() && room-- != 0) {
    const auto fds = input.Number();
    const auto bytes = input.Take(input.Number());
    if (!bytes.empty()) SendRaw(broker.get(), bytes, passed, fds & 0x0F, fds >> 4);
  }
  shutdown(broker.get(), SHUT_WR);
  for (;;) {
    const auto message = lane.Receive();
    if (!message.ok()) {
      Require(!message.status().message().empty(), "a broken lane says why");
      break;
    }
    for (const std::byte byte : *message) static_cast<void>(*const_cast<const volatile std::byte*>(&byte));
  }
  Require(!lane.Send(std::as_bytes(std::span("x", 1))).pending(), "sending never hangs here");
}

// Returns whether the datagram consists of whole messages. `count`: the whole ones at its beginning.
bool AreMessages(std::span<const std::uint8_t> bytes, int* count) {
  provider::MessageRecord record;
  const provider::MessageRecord right;
  *count = 0;
  if (bytes.size() < sizeof record) return false;
  std::memcpy(&record, bytes.data(), sizeof record);
  if (record.magic != right.magic || record.version != right.version || record.size != right.size)
    return false;
  bytes = bytes.subspan(sizeof record);
  do {
    std::uint32_t length = 0;
    if (bytes.size() < sizeof length) return false;
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.subspan(sizeof length);
    if (bytes.size() < length) return false;
    bytes = bytes.subspan(length);
    ++*count;
  } while (!bytes.empty());
  return true;
}

void RunBroker(Input& input, const Passed& passed, bool honest) {
  static SystemClock clock;
  static EventLoop loop(clock);
  UniqueFd client, mine;
  Require(MakeSeqpacketPair(&client, &mine).ok(), "a pair of sockets");
  int ended = 0;
  const auto peer = service::PeerOf(mine.get());
  Require(peer.has_value() && peer->pid == static_cast<std::uint32_t>(getpid()), "the kernel knows the peer");
  service::ClientLane* says = nullptr;
  service::ClientLane lane(
      loop, std::move(mine), *peer,
      {.room = [] {},
       .ended =
           [&](const Status& why) {
             Require(!why.ok() && !why.message().empty(), "a lane that ends says why");
             ++ended;
           },
       .message = [&](std::span<const std::byte> message) { says->SendMessage(message, 4096); }});
  says = &lane;
  Require(lane.Open(), "a lane opens");
  std::uint64_t next_id = 1;
  std::set<std::uint64_t> out;
  while (!input.empty() && ended == 0) {
    const provider::CountersPageRecord record{.id = next_id};
    const int page = passed.Of(1);
    service::InFlight::Charge charge;
    if (lane.Send(next_id, std::as_bytes(std::span(&record, 1)), {&page, 1}, charge).ok()) {
      out.insert(next_id++);
    }
    Require(lane.unacknowledged() <= service::kMaxUnacknowledged, "descriptors in flight are few");
    const auto fds = input.Number();
    const auto bytes = input.Take(input.Number());
    bool good = false;
    int messages = 0;
    if (honest && !out.empty() && (fds & 0x0F) == 0x0F) {
      provider::AckRecord ack;
      ack.id = *out.begin();
      good = true;
      SendRaw(client.get(), std::span(reinterpret_cast<const std::uint8_t*>(&ack), sizeof ack), passed, 0, 0);
      out.erase(out.begin());
    } else if (!bytes.empty()) {
      provider::AckRecord ack;
      const provider::AckRecord right;
      const bool whole = bytes.size() == sizeof ack && (fds & 0x0F) == 0;
      if (bytes.size() == sizeof ack) std::memcpy(&ack, bytes.data(), sizeof ack);
      good = whole && ack.magic == right.magic && ack.version == right.version && ack.size == right.size &&
             out.erase(ack.id) == 1;
      good = good || ((fds & 0x0F) == 0 && AreMessages(bytes, &messages));
      SendRaw(client.get(), bytes, passed, fds & 0x0F, fds >> 4);
    } else {
      continue;
    }
    // A turn is sixteen messages.
    for (int i = 0; i < 3 + messages / 16; ++i) loop.RunOnce(Duration::zero());
    Require((ended == 0) == good, "anything but a message and a right acknowledgement ends the lane");
    static std::byte sink[provider::kMaxServerDatagram];
    while (ReceiveWithFds(client.get(), sink, false).ok()) {
    }
  }
  client.reset();
  loop.RunOnce(Duration::zero());
  loop.RunOnce(Duration::zero());
  Require(ended == 1, "a hang-up ends the lane, once");
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  static const Passed passed;
  Input input(data, size);
  const auto flags = input.Number();
  // An empty run first, because memory that the program allocates once is no leak of the first input.
  static const bool warm = [] {
    Input nothing(nullptr, 0);
    RunBroker(nothing, passed, false);
    return true;
  }();
  Require(warm, "the loop exists");
  const int before = NextFree();
  if ((flags & 1) != 0) {
    RunBroker(input, passed, (flags & 2) != 0);
  } else if ((flags & 4) != 0) {
    RunCarrying(input, passed);
  } else {
    RunClient(input, passed);
  }
  Require(NextFree() == before, "no descriptor is lost");
  return 0;
}
