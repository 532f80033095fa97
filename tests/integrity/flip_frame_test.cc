// SPDX-License-Identifier: Apache-2.0
// Flips one bit of a frame that a queue pair receives through a socket, with good frames before and behind
// it. The good frames before it have their effect, and no byte of the damaged one, nor of those behind it,
// reaches the memory of the application. No broker takes part, so that a million connections take minutes.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "provider/qp.h"
#include "provider/soft/limits.h"
#include "provider/soft/qp/soft_device.h"
#include "provider/soft/transports.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "tests/integrity/stamp.h"
#include "tests/integrity/world.h"
#include "tests/testing/segments.h"

namespace nd::integrity {
namespace {

namespace soft = provider::soft;
namespace wire = soft::wire;
using Bytes = std::vector<std::byte>;

// The application's memory: what the peer may write, what it answers a Read with, and its messages.
constexpr std::size_t kWritten = 4096, kRead = 256, kMessage = 256, kMessages = 8;
constexpr std::size_t kReadAt = kWritten, kMessagesAt = kReadAt + kRead;
constexpr std::size_t kMemory = kMessagesAt + kMessages * kMessage;
using Memory = std::array<std::byte, kMemory>;

// An application whose peer is the test.
class Application {
 public:
  Application() {
    AdapterInfo info;
    info.name = "soft0";
    soft::FillSoftAdapterInfo(&info);
    device_ = soft::MakeSoftDevice(info, {.progress_thread = false}, {}).value();
    queue_ = device_->CreateCompletionQueue(64).value();
    region_ = device_->Register(memory_.data(), kMemory, kAllowLocalWrite | kAllowRemoteWrite).value();
  }
  // Begins a connection with empty memory, posted receives and, if wanted, a Read.
  void Connect(bool read) {
    memory_.fill({});
    provider::QpOptions options;
    options.receive_cq = options.initiator_cq = queue_;
    options.receive_depth = options.initiator_depth = kMessages;
    options.max_receive_sge = options.max_initiator_sge = 1;
    options.on_peer_closed = [this](DisconnectReason, const Status&) { ended_ = true; };
    ended_ = false;
    pair_ = device_->CreateQueuePair(options).value();
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer_.reset(ends[1]);
    provider::HandOff hand_off;
    hand_off.record = soft::IwarpRecord();
    hand_off.record.flags = provider::kHandOffCrc | provider::kHandOffExtensions;
    hand_off.record.read_inbound = hand_off.record.read_outbound = 4;
    hand_off.fds.emplace_back(ends[0]);
    ASSERT_TRUE(pair_->Attach(std::move(hand_off)).ok());
    for (std::size_t i = 0; i < kMessages; ++i) {
      const Sge sge = At(kMessagesAt + i * kMessage, kMessage);
      ASSERT_TRUE(pair_->Receive(nullptr, {&sge, 1}).ok());
    }
    if (!read) return;
    const Sge sink = At(kReadAt, kRead);
    ASSERT_TRUE(pair_->Read(nullptr, {&sink, 1}, 0x1000, 7, 0).ok());
    static_cast<void>(Poll());
    std::array<std::byte, 256> request;
    const ssize_t got = ::recv(peer_.get(), request.data(), request.size(), 0);
    ASSERT_GT(got, 0);
    const wire::FpduDecoded frame = wire::DecodeFpdu({request.data(), static_cast<std::size_t>(got)}, true);
    wire::Segment segment;
    ASSERT_FALSE(wire::DecodeSegment(frame.ulpdu, &segment));
    asked_ = wire::DecodeReadRequest(segment.payload);
  }
  // Receives what the peer said last. Returns the requests that completed with SUCCESS before the end of the
  // connection.
  std::size_t Hear(const Bytes& stream) {
    EXPECT_EQ(::send(peer_.get(), stream.data(), stream.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(stream.size()));
    ::shutdown(peer_.get(), SHUT_WR);
    std::size_t done = 0;
    for (int idle = 0; idle < 3;) {
      const std::size_t now = Poll();
      done += now;
      idle = now == 0 ? idle + 1 : 0;
    }
    pair_->Drop();
    while (Poll() != 0) {
    }
    pair_.reset();
    return done;
  }
  bool ended() const { return ended_; }
  const Memory& memory() const { return memory_; }
  const wire::ReadRequest& asked() const { return asked_; }
  std::uint32_t token() const { return region_->remote_token(); }
  std::uint64_t Address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(memory_.data() + offset);
  }

 private:
  Sge At(std::size_t offset, std::size_t length) {
    return {memory_.data() + offset, static_cast<std::uint32_t>(length), region_->local_token()};
  }
  std::size_t Poll() {
    std::array<Completion, 16> some;
    const std::size_t count = queue_->Poll(some);
    return static_cast<std::size_t>(std::count_if(
        some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count),
        [](const Completion& completion) { return completion.status == StatusCode::kSuccess; }));
  }

  alignas(64) Memory memory_;
  std::shared_ptr<provider::Device> device_;
  std::shared_ptr<provider::CompletionQueue> queue_;
  std::shared_ptr<provider::MemoryRegion> region_;
  std::shared_ptr<provider::QueuePair> pair_;
  UniqueFd peer_;
  wire::ReadRequest asked_;
  bool ended_ = false;
};

// The frames of one connection, and their effect.
class Script {
 public:
  Script(const Application& application, Random& random) : application_(application), random_(random) {
    expected_.fill({});
  }
  // Appends a frame. With an effect, the expected memory and the number of completions follow it.
  void Add(bool effective) {
    std::byte payload[kMessage];
    const std::size_t size = random_.Below(kMessage + 1);
    Fill({random_.Next(), 0}, 0, {payload, size});
    std::size_t to = 0;
    wire::Segment segment;
    switch (random_.Below(read_ ? 3 : 2)) {
      case 0:
        to = random_.Below(kWritten - kMessage);
        segment = testing::Tagged(wire::Opcode::kWrite, application_.token(), application_.Address(to));
        break;
      case 1:
        to = kMessagesAt + (msn_ - 1) * kMessage;
        segment = testing::Untagged(wire::Opcode::kSend, msn_++);
        completions_ += effective ? 1 : 0;
        break;
      default:
        return AddResponse(effective);
    }
    Append(segment, {payload, size});
    if (effective) std::memcpy(expected_.data() + to, payload, size);
  }
  void AllowResponse() { read_ = true; }
  // Flips a bit of the last frame.
  void Damage() {
    const std::size_t size = stream_.size() - last_;
    stream_[last_ + random_.Below(static_cast<std::uint32_t>(size))] ^= std::byte{1} << random_.Below(8);
  }
  const Bytes& stream() const { return stream_; }
  const Memory& expected() const { return expected_; }
  std::size_t completions() const { return completions_; }

 private:
  // The whole answer to the Read.
  void AddResponse(bool effective) {
    std::byte payload[kRead];
    Fill({random_.Next(), 0}, 0, payload);
    read_ = false;
    Append(testing::Tagged(wire::Opcode::kReadResponse, application_.asked().sink_stag,
                           application_.asked().sink_offset),
           payload);
    if (!effective) return;
    std::memcpy(expected_.data() + kReadAt, payload, kRead);
    ++completions_;
  }
  void Append(const wire::Segment& segment, std::span<const std::byte> payload) {
    std::byte header[wire::kMaxSegmentHeader];
    const std::size_t header_size = wire::EncodeSegmentHeader(segment, header);
    const std::size_t ulpdu = header_size + payload.size();
    last_ = stream_.size();
    stream_.resize(last_ + wire::FpduSize(ulpdu));
    std::byte* const frame = stream_.data() + last_;
    std::memcpy(frame + wire::kFpduHeaderSize, header, header_size);
    std::copy(payload.begin(), payload.end(), frame + wire::kFpduHeaderSize + header_size);
    wire::SealFpdu(std::span(stream_).subspan(last_), ulpdu, true);
  }

  const Application& application_;
  Random& random_;
  Bytes stream_;
  Memory expected_;
  std::size_t last_ = 0, completions_ = 0;
  std::uint32_t msn_ = 1;
  bool read_ = false;
};

// Plays `count` connections, with a damaged frame in each if `flip`; returns the connections that ended.
std::uint64_t Play(std::uint64_t count, bool flip) {
  Application application;
  Random random(21);
  std::uint64_t ended = 0;
  for (std::uint64_t i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    const bool read = random.OneIn(3);
    application.Connect(read);
    Script script(application, random);
    if (read) script.AllowResponse();
    for (std::uint32_t before = random.Below(3); before > 0; --before) script.Add(true);
    script.Add(!flip);
    if (flip) script.Damage();
    for (std::uint32_t behind = random.Below(3); behind > 0; --behind) script.Add(!flip);
    EXPECT_EQ(application.Hear(script.stream()), script.completions()) << "connection " << i;
    EXPECT_TRUE(application.memory() == script.expected()) << "connection " << i;
    ended += application.ended() ? 1 : 0;
  }
  return ended;
}

TEST(FlipsAtAQueuePair, NoByteOfADamagedFrameIsSeen) {
  const std::uint64_t count = GetSettings().frames;
  EXPECT_EQ(Play(count, true), count);
  if (HasFailure()) return;
  std::printf("%llu damaged frames through sockets, and no byte of them seen\n",
              static_cast<unsigned long long>(count));
}

// The expected memory is that of the frames, and not that of a queue pair which takes nothing.
TEST(FlipsAtAQueuePair, WithoutAFlipEveryFrameHasItsEffect) {
  Play(1000, false);
}

}  // namespace
}  // namespace nd::integrity
