// SPDX-License-Identifier: Apache-2.0
// Malformed start-up frames over sockets: requests and confirmations to an accepting broker, replies to a
// connecting one. Every one of them ends without a connection, and nothing of them remains.
#include <nd/nd.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>

#include "provider/soft/wire/ndb_header.h"
#include "tests/crash/hostile/attack.h"
#include "tests/crash/hostile/honest.h"
#include "tests/crash/hostile/raw_peer.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

using hostile::Bytes;
namespace wire = hostile::wire;

constexpr std::uint16_t kAnywhere = 9000;  // The port of the hostile listener.
constexpr int kHostileHost = 4;

// What became of the frames.
struct Tally {
  std::uint64_t requests = 0, confirmations = 0, replies = 0;
  std::uint64_t silent = 0;    // The broker neither answered nor closed.
  std::uint64_t accepted = 0;  // A malformed frame led to a connection.
  std::uint64_t sent() const { return requests + confirmations + replies; }
};

// Whether a peer may send these bytes, and no others, before it waits for the answer.
bool WellFormed(wire::MpaKind kind, const Bytes& bytes) {
  const wire::MpaDecoded decoded = wire::DecodeMpa(kind, bytes);
  return decoded.verdict == wire::Verdict::kComplete && decoded.size == bytes.size() &&
         wire::DecodeNdbHeader(decoded.frame.private_data).has_value();
}

// A whole frame with more bytes behind it. When they arrive after the answer, the broker has rightly answered
// the frame, and ends the connection because of them.
bool HasBytesBehind(wire::MpaKind kind, const Bytes& bytes) {
  const wire::MpaDecoded decoded = wire::DecodeMpa(kind, bytes);
  return decoded.verdict == wire::Verdict::kComplete && decoded.size < bytes.size();
}

// Changes bits or bytes, cuts the frame, appends to it, or replaces it.
Bytes Change(const Bytes& whole, std::mt19937& random) {
  Bytes frame = whole;
  const auto append = [&](std::size_t count) {
    for (; count > 0; --count) frame.push_back(static_cast<std::byte>(random()));
  };
  switch (random() % 5) {
    case 0:
      for (std::size_t flips = 1 + random() % 3; flips > 0; --flips)
        frame[random() % frame.size()] ^= std::byte{1} << (random() % 8);
      break;
    case 1:
      frame[random() % frame.size()] = static_cast<std::byte>(random());
      break;
    case 2:
      frame.resize(random() % frame.size());
      break;
    case 3:
      append(1 + random() % 64);
      break;
    default:
      frame.clear();
      append(1 + random() % 600);
  }
  return frame;
}
Bytes Malformed(wire::MpaKind kind, const Bytes& whole, std::mt19937& random) {
  for (;;) {
    Bytes frame = Change(whole, random);
    if (!WellFormed(kind, frame)) return frame;
  }
}

void Reset(UniqueFd& fd) {
  const linger now{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd.reset();
}
// Sends the frame in one or two parts. Resets the connection behind one frame in four; otherwise the stream
// ends there, because a broker rightly waits for the rest of a frame that was cut.
void Send(UniqueFd& fd, const Bytes& frame, std::mt19937& random) {
  const auto middle = frame.begin() + static_cast<std::ptrdiff_t>(random() % (frame.size() + 1));
  static_cast<void>(hostile::SendAll(fd.get(), {frame.begin(), middle}));
  static_cast<void>(hostile::SendAll(fd.get(), {middle, frame.end()}));
  if (random() % 4 == 0) {
    Reset(fd);
  } else {
    ::shutdown(fd.get(), SHUT_WR);
  }
}
// Everything that the broker says until it closes the connection; nothing: it does not close it.
std::optional<Bytes> Answer(int fd) {
  Bytes answer;
  std::array<std::byte, 1024> some;
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, 10'000) != 1) return std::nullopt;
    const ssize_t got = ::recv(fd, some.data(), some.size(), 0);
    if (got <= 0) return answer;  // The end of the stream, or a reset.
    answer.insert(answer.end(), some.begin(), some.begin() + got);
  }
}

// Many at once, from any source network, to ports with and without a listener.
void SendRequests(std::uint64_t count, Tally* tally) {
  constexpr std::size_t kAtOnce = 32;
  std::mt19937 random(9);
  while (tally->requests < count) {
    std::array<UniqueFd, kAtOnce> all;
    std::array<bool, kAtOnce> may_be_accepted;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      UniqueFd& fd = all[i];
      fd = hostile::DialWire(3, static_cast<std::uint32_t>(0x10000 + random() % 0xE00000));
      if (!fd) Die("no connection to the broker: " + std::string(std::strerror(errno)));
      const std::string data(random() % 8 == 0 ? random() % 490 : random() % 32, 'd');
      const Bytes whole = hostile::RequestFrame(random() % 2 == 0 ? hostile::kVictimPort : 9, data);
      const Bytes frame = Malformed(wire::MpaKind::kRequest, whole, random);
      may_be_accepted[i] = HasBytesBehind(wire::MpaKind::kRequest, frame);
      Send(fd, frame, random);
      ++tally->requests;
    }
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      if (!all[i]) continue;
      const std::optional<Bytes> answer = Answer(all[i].get());
      if (!answer) {
        ++tally->silent;
      } else if (!answer->empty() && !may_be_accepted[i]) {
        const wire::MpaDecoded reply = wire::DecodeMpa(wire::MpaKind::kReply, *answer);
        if (reply.verdict != wire::Verdict::kComplete || !reply.frame.rejected) ++tally->accepted;
      }
    }
  }
}

// The first frame of a connection that the application has accepted. An application that gets no time from a
// busy machine does not answer at once.
void SendConfirmations(std::uint64_t count, Tally* tally) {
  constexpr int kTries = 20;
  std::mt19937 random(10);
  wire::Segment empty;
  empty.opcode = wire::Opcode::kWrite;
  const Bytes whole = hostile::Fpdu(empty, {});
  while (tally->confirmations < count) {
    hostile::Established peer;
    for (int i = 0; i < kTries && !peer.socket; ++i) peer = hostile::Establish(3, false);
    if (!peer.socket) Die("the victim does not accept");
    Bytes frame = whole;
    if (random() % 4 == 0) {
      frame.resize(random() % frame.size());
    } else {
      frame[random() % frame.size()] ^= std::byte{1} << (random() % 8);
    }
    Send(peer.socket, frame, random);
    ++tally->confirmations;
    if (peer.socket && !Answer(peer.socket.get())) ++tally->silent;
  }
}

// To an application that connects again and again.
void SendReplies(std::uint64_t count, const std::string& directory, Tally* tally) {
  const UniqueFd listening = hostile::ListenOnWire(kHostileHost);
  if (!listening) Die("no listener for the replies");
  OpenOptions open;
  open.broker = directory;
  open.application = "connects";
  Adapter adapter = Must(Adapter::Open(open));
  CompletionQueue queue = Must(adapter.CreateCompletionQueue(8));
  const Address to = Must(Address::Parse("127.0.0." + std::to_string(kHostileHost))).WithPort(kAnywhere);
  std::mt19937 random(11);
  const Bytes whole = hostile::ReplyFrame();
  while (tally->replies < count) {
    QueuePair pair = Must(adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue}));
    Connector connector = Must(adapter.CreateConnector());
    Must(connector.Bind(Must(Address::Parse("127.0.0.2"))));
    Request connecting;
    Status status = connector.Connect(pair, to, {}, &connecting);
    UniqueFd fd = hostile::TakeOnWire(listening.get());
    if (!fd) Die("the broker does not connect");
    const Bytes frame = Malformed(wire::MpaKind::kReply, whole, random);
    Send(fd, frame, random);
    ++tally->replies;
    if (status.pending()) status = connecting.GetResult();
    if (status.ok() && !HasBytesBehind(wire::MpaKind::kReply, frame)) ++tally->accepted;
    static_cast<void>(connector.Close());
    static_cast<void>(pair.Close());
  }
}

}  // namespace

int MeasureHandshakes(const Scale& scale) {
  std::array<std::unique_ptr<testing::Daemon>, 2> brokers;
  for (int host = 2; host <= 3; ++host) {
    auto& broker = brokers.at(static_cast<std::size_t>(host - 2));
    broker = std::make_unique<testing::Daemon>(BrokerAt(host));
    if (!broker->Start()) Die("a broker does not start: " + broker->log());
  }
  const std::string connecting = brokers[0]->directory();
  hostile::Honest honest({connecting, 2}, {brokers[1]->directory(), 3}, true);
  Tally tally;
  SendReplies(10, connecting, &tally);  // What a first connection opens stays open.
  SendConfirmations(10, &tally);
  honest.DropVictims();
  const std::array before{brokers[0]->Count(), brokers[1]->Count()};
  tally = {};
  const std::uint64_t wanted = 100 * scale.connections;
  const auto began = Clock::now();
  SendConfirmations(wanted / 100, &tally);
  SendReplies(wanted / 100, connecting, &tally);
  SendRequests(wanted - tally.sent(), &tally);
  const double took = Milliseconds(Clock::now() - began) / 1000;
  std::array<testing::Counts, 2> after;
  std::size_t crashes = 0;
  const bool back = testing::Eventually(
      [&] {
        honest.DropVictims();
        for (std::size_t i = 0; i < brokers.size(); ++i) after.at(i) = brokers.at(i)->Count();
        return after == before;
      },
      seconds(60));
  for (const auto& broker : brokers) crashes += broker->running() ? 0 : 1;
  const hostile::Measured still = honest.Measure(20);
  Row(9, crashes == 0 && tally.silent == 0 && tally.accepted == 0 && back && still.failures == 0,
      Format(
          "%llu requests, %llu confirmations and %llu replies, %.0f a second: %zu crashes, %llu without an "
          "end, %llu led to a connection, %zu of 20 honest connections failed afterwards; %s",
          static_cast<unsigned long long>(tally.requests),
          static_cast<unsigned long long>(tally.confirmations),
          static_cast<unsigned long long>(tally.replies), static_cast<double>(tally.sent()) / took, crashes,
          static_cast<unsigned long long>(tally.silent), static_cast<unsigned long long>(tally.accepted),
          still.failures,
          back ? "objects, descriptors and handshakes as before"
               : ("before " + before[1].ToString() + ", afterwards " + after[1].ToString()).c_str()));
  return 0;
}

}  // namespace nd::reliability
