// SPDX-License-Identifier: Apache-2.0
// foreign_peer rping|ucmatose server|client ADAPTER ADDRESS:PORT [ROUNDS]: the other end of rdmacm-utils'
// programs, which create their queue pairs with rdma_cm and know no brokers. This is an ordinary application
// of a broker.
//
//   rping     the client advertises a source, the server Reads it and sends a message; the client advertises
//   a sink, the server Writes the data back and sends a message; ROUNDS times (5), 64 bytes. The client
//   disconnects. ucmatose  the server sends 10 messages of 100 bytes, the client answers with as many. The
//   server disconnects.
#include <endian.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "nd/nd.h"

namespace {

using nd::RequestType;
using nd::Status;
using nd::StatusCode;

constexpr std::uint32_t kPing = 64, kMessages = 10, kMessage = 100;
constexpr std::size_t kIn = 0, kOut = 4096, kData = 8192, kSink = 12288, kAll = 16384;
constexpr auto kPatience = std::chrono::seconds(60);

struct Advertisement {  // Network order.
  std::uint64_t address;
  std::uint32_t key, size;
};
static_assert(sizeof(Advertisement) == 16);

class Peer {
 public:
  explicit Peer(nd::Adapter adapter) : adapter_(std::move(adapter)) {}

  Status Prepare(std::uint32_t receives, std::uint32_t length) {
    queue_ = adapter_.CreateCompletionQueue(64).value();
    buffer_ = adapter_.AllocateBuffer(kAll).value();
    auto region = adapter_.Register(
        buffer_, nd::kAllowLocalWrite | nd::kAllowRemoteRead | nd::kAllowRemoteWrite | nd::kRdmaReadSink);
    if (!region.ok()) return region.status();
    region_ = *region;
    nd::QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue_;
    auto pair = adapter_.CreateQueuePair(options);
    if (!pair.ok()) return pair.status();
    pair_ = *pair;
    connector_ = adapter_.CreateConnector().value();
    for (std::uint32_t i = 0; i < receives; ++i) {
      if (Status s = PostReceive(length); !s.ok()) return s;
    }
    return {};
  }

  Status Accept(const nd::Address& at) {
    nd::Listener listener = adapter_.CreateListener().value();
    if (Status s = listener.Bind(at); !s.ok()) return s;
    if (Status s = listener.Listen(); !s.ok()) return s;
    std::printf("listening\n");
    std::fflush(stdout);
    if (Status s = listener.GetConnectionRequest(connector_); !s.ok()) return s;
    return connector_.Accept(pair_, {{1, 1}, {}});
  }

  Status Connect(const nd::Address& to) {
    const auto local = adapter_.ResolveAddress(to);
    if (!local.ok()) return local.status();
    if (Status s = connector_.Bind(*local); !s.ok()) return s;
    if (Status s = connector_.Connect(pair_, to, {{1, 1}, {}}); !s.ok()) return s;
    return connector_.CompleteConnect();
  }

  Status Hangup() { return connector_.Disconnect(); }
  Status AwaitHangup() {
    if (Status s = connector_.NotifyDisconnect(); !s.ok()) return s;
    return connector_.Disconnect();
  }

  Status RpingServer(int rounds) {
    for (int i = 0; i < 2 * rounds; ++i) {
      if (Status s = Finish(RequestType::kReceive); !s.ok()) return s;
      Advertisement theirs{};
      std::memcpy(&theirs, at(kIn), sizeof theirs);
      if (be32toh(theirs.size) != kPing) return {StatusCode::kDataOverrun, "no advertisement of 64 bytes"};
      if (Status s = PostReceive(sizeof theirs); !s.ok()) return s;
      const nd::Sge data = region_.Slice(at(kData), kPing);
      const bool source = i % 2 == 0;
      if (Status s = source ? pair_.Read(nullptr, {&data, 1}, be64toh(theirs.address), be32toh(theirs.key))
                            : pair_.Write(nullptr, {&data, 1}, be64toh(theirs.address), be32toh(theirs.key));
          !s.ok()) {
        return s;
      }
      if (Status s = Finish(source ? RequestType::kRead : RequestType::kWrite); !s.ok()) return s;
      if (Status s = Send(sizeof(Advertisement)); !s.ok()) return s;
    }
    return AwaitHangup();
  }

  Status RpingClient(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      // rping compares text: NUL-terminated inside its size.
      std::memset(at(kData), 'a' + i % 26, kPing);
      at(kData)[kPing - 1] = std::byte{0};
      std::memset(at(kSink), 0, kPing);
      for (const std::size_t place : {kData, kSink}) {
        const Advertisement mine{htobe64(reinterpret_cast<std::uintptr_t>(at(place))),
                                 htobe32(region_.remote_token()), htobe32(kPing)};
        std::memcpy(at(kOut), &mine, sizeof mine);
        if (Status s = Send(sizeof mine); !s.ok()) return s;
        if (Status s = Finish(RequestType::kReceive); !s.ok()) return s;
        if (Status s = PostReceive(sizeof mine); !s.ok()) return s;
      }
      if (std::memcmp(at(kData), at(kSink), kPing) != 0) {
        return {StatusCode::kDataOverrun, "round " + std::to_string(i) + " came back different"};
      }
    }
    return Hangup();
  }

  Status Messages(bool sends_first) {
    // The server of ucmatose sends first, which MPA does not allow (docs/verbs.md): siw ends a connection
    // whose first message arrives before it has processed the reply. No event tells when it has.
    if (sends_first) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (const bool send : {sends_first, !sends_first}) {
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        if (Status s = send ? Send(kMessage) : Finish(RequestType::kReceive); !s.ok()) return s;
      }
    }
    return sends_first ? Hangup() : AwaitHangup();
  }

 private:
  std::byte* at(std::size_t offset) const { return buffer_.data() + offset; }
  Status PostReceive(std::uint32_t length) {
    const nd::Sge sge = region_.Slice(at(kIn), length);
    return pair_.Receive(nullptr, {&sge, 1});
  }
  Status Send(std::uint32_t length) {
    const nd::Sge sge = region_.Slice(at(kOut), length);
    if (Status s = pair_.Send(nullptr, {&sge, 1}); !s.ok()) return s;
    return Finish(RequestType::kSend);
  }
  // A receive may complete before the send that caused it.
  Status Finish(RequestType type) {
    for (std::size_t i = 0; i < early_.size(); ++i) {
      if (early_[i] != type) continue;
      early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
      return {};
    }
    for (;;) {
      const auto done = queue_.Next(kPatience);
      if (!done.ok()) return done.status();
      if (done->status != StatusCode::kSuccess) return {done->status, "a request failed"};
      if (done->type == type) return {};
      early_.push_back(done->type);
    }
  }

  nd::Adapter adapter_;
  nd::CompletionQueue queue_;
  nd::Buffer buffer_;
  nd::MemoryRegion region_;
  nd::QueuePair pair_;
  nd::Connector connector_;
  std::vector<RequestType> early_;
};

Status Run(const std::string& program, bool server, const std::string& name, const std::string& where,
           int rounds) {
  const auto address = nd::Address::Parse(where);
  if (!address.ok()) return address.status();
  nd::OpenOptions open;
  open.adapter = name;
  open.application = "foreign_peer";
  auto adapter = nd::Adapter::Open(open);
  if (!adapter.ok()) return adapter.status();
  Peer peer(*adapter);
  const bool rping = program == "rping";
  if (Status s = rping ? peer.Prepare(1, sizeof(Advertisement)) : peer.Prepare(kMessages, kMessage); !s.ok())
    return s;
  if (Status s = server ? peer.Accept(*address) : peer.Connect(*address); !s.ok()) return s;
  if (!rping) return peer.Messages(server);
  return server ? peer.RpingServer(rounds) : peer.RpingClient(rounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: foreign_peer rping|ucmatose server|client ADAPTER ADDRESS:PORT [ROUNDS]\n", stderr);
    return 2;
  }
  const Status status =
      Run(argv[1], std::string(argv[2]) == "server", argv[3], argv[4], argc > 5 ? std::atoi(argv[5]) : 5);
  if (status.ok()) return 0;
  std::printf("foreign_peer: %s\n", status.ToString().c_str());
  return 1;
}
