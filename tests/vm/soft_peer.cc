// SPDX-License-Identifier: Apache-2.0
// soft_peer serve|connect LOCAL-IP ADDRESS:PORT SCENARIO...: an application of a broker whose soft adapter is
// in tcp mode, against guest/kernel_peer.c, which is an ordinary rdma_cm program on the kernel's soft-iWARP.
// One connection for each scenario, in order:
//
//   exchange         private data and read limits both ways, then for every size Send, Write and Read in both
//                    directions, every byte checked; the active side disconnects
//   reject           the passive side refuses, with private data
//   our-bad-write    the side of the kernel uses an unknown token; our side terminates the connection
//   our-bad-read     (as kernel_peer names them: "our" is the side of the kernel, "their" is this side)
//   their-bad-write  our side does; the kernel terminates
//   their-bad-read
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "nd/nd.h"

namespace {

using nd::Status;
using nd::StatusCode;

constexpr std::uint32_t kMost = 16u << 20, kOut = 0, kIn = kMost, kTarget = 2 * kMost, kAll = 3 * kMost;
constexpr std::uint32_t kSizes[] = {1, 100, 1448, 4096, 65536, 1u << 20, kMost};
constexpr std::uint32_t kMagic = 0x4d454d31, kSays = 60, kNobodysToken = 0x5a5a00;
constexpr auto kPatience = std::chrono::seconds(150);

struct PeerMemory {
  std::uint64_t address = 0;
  std::uint32_t key = 0, magic = 0;
};

Status Wrong(const std::string& what) {
  return {StatusCode::kDataOverrun, what};
}

std::byte Pattern(std::uint32_t i, std::uint32_t length, std::uint32_t seed) {
  if (i / 4 * 4 + 4 > length) return static_cast<std::byte>(i + seed);
  const std::uint32_t word = (i / 4 * 2654435761u) ^ seed;
  return static_cast<std::byte>(word >> (i % 4 * 8));
}

class Peer {
 public:
  Peer(nd::Adapter adapter, const nd::Address& local, const nd::Address& at)
      : adapter_(std::move(adapter)), local_(local), at_(at) {}

  Status Listen() {
    listener_ = adapter_.CreateListener().value();
    if (Status s = listener_.Bind(at_); !s.ok()) return s;
    return listener_.Listen();
  }
  Status Run(const std::string& scenario, bool active) {
    if (Status s = Prepare(); !s.ok()) return s;
    return active ? Connect(scenario) : Serve(scenario);
  }

 private:
  Status Prepare() {
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
    return PostReceive();
  }

  std::array<std::byte, kSays> Say(const char* text) const {
    std::array<std::byte, kSays> data{};
    const PeerMemory own{reinterpret_cast<std::uintptr_t>(buffer_.data()), region_.remote_token(), kMagic};
    std::memcpy(data.data(), &own, sizeof own);
    std::memcpy(data.data() + sizeof own, text, std::strlen(text));
    return data;
  }
  Status Heard(const std::string& text) {
    const auto data = connector_.GetPrivateData();
    if (!data.ok()) return data.status();
    if (data->size() != kSays) return Wrong(std::to_string(data->size()) + " bytes of private data");
    std::memcpy(&peer_, data->data(), sizeof peer_);
    const std::string said(reinterpret_cast<const char*>(data->data()) + sizeof peer_);
    return peer_.magic == kMagic && said == text ? Status() : Wrong("private data says '" + said + "'");
  }
  Status Limits(nd::ReadLimits expected) {
    nd::ReadLimits limits;
    if (Status s = connector_.GetReadLimits(&limits.inbound, &limits.outbound); !s.ok()) return s;
    if (limits == expected) return {};
    return Wrong("read limits " + std::to_string(limits.inbound) + "/" + std::to_string(limits.outbound));
  }

  Status Connect(const std::string& scenario) {
    if (Status s = connector_.Bind(local_); !s.ok()) return s;
    const auto said = Say("request of soft");
    const nd::ConnectOptions options{{4, 2}, said};
    Status status = connector_.Connect(pair_, at_, options);
    if (scenario == "reject") {
      if (!(status == StatusCode::kConnectionRefused)) return Wrong("Connect ended " + status.ToString());
      return Heard("not today");
    }
    if (!status.ok()) return status;
    if (Status s = Heard("reply of the kernel"); !s.ok()) return s;
    if (Status s = Limits({4, 2}); !s.ok()) return s;
    if (Status s = connector_.CompleteConnect(); !s.ok()) return s;
    return Established(scenario, true);
  }

  Status Serve(const std::string& scenario) {
    if (Status s = listener_.GetConnectionRequest(connector_); !s.ok()) return s;
    if (Status s = Heard("request of the kernel"); !s.ok()) return s;
    // The peer serves 4 reads and issues 2.
    if (Status s = Limits({2, 4}); !s.ok()) return s;
    if (scenario == "reject") return connector_.Reject(nd::AsPrivateData("not today"));
    const auto said = Say("reply of soft");
    const nd::ConnectOptions options{{2, 4}, said};
    if (Status s = connector_.Accept(pair_, options); !s.ok()) return s;
    if (Status s = Limits({2, 4}); !s.ok()) return s;
    return Established(scenario, false);
  }

  Status Established(const std::string& scenario, bool active) {
    // The side of the kernel sends first; see kernel_peer.
    if (Status s = Receive(1, 0); !s.ok()) return s;
    if (scenario == "exchange") {
      if (Status s = Exchange(); !s.ok()) return s;
      if (active) return connector_.Disconnect();
      if (Status s = Send(1); !s.ok()) return s;
      if (Status s = connector_.NotifyDisconnect(); !s.ok()) return s;
      return connector_.Disconnect();
    }
    if (scenario.starts_with("our-bad")) {
      if (Status s = Send(1); !s.ok()) return s;
      return connector_.NotifyDisconnect();
    }
    if (!scenario.starts_with("their-bad")) return Wrong("no scenario called " + scenario);
    const nd::Sge sge = region_.Slice(buffer_.data(), 64);
    const std::uint32_t token = peer_.key ^ kNobodysToken;
    const bool write = scenario == "their-bad-write";
    if (Status s = write ? pair_.Write(nullptr, {&sge, 1}, peer_.address, token)
                         : pair_.Read(nullptr, {&sge, 1}, peer_.address, token);
        !s.ok()) {
      return s;
    }
    for (;;) {
      const auto done = queue_.Next(kPatience);
      if (!done.ok()) return done.status();
      if (done->type == nd::RequestType::kReceive) continue;
      // Only a failed Write is answered, so this one may have completed already.
      const bool told =
          done->status == StatusCode::kAccessViolation || done->status == StatusCode::kRemoteError;
      if (!told && !(write && done->status == StatusCode::kSuccess)) {
        return Wrong("the request ended " + std::string(nd::Name(done->status)));
      }
      return connector_.NotifyDisconnect();
    }
  }

  // The other end answers.
  Status Exchange() {
    for (const std::uint32_t n : kSizes) {
      const auto steps = [&]() -> Status {
        Fill(n, 1);
        if (Status s = Send(n); !s.ok()) return s;
        if (Status s = Receive(n, 2); !s.ok()) return s;
        Fill(n, 3);
        if (Status s = Remote(nd::RequestType::kWrite, kOut, n, kTarget); !s.ok()) return s;
        if (Status s = Send(1); !s.ok()) return s;
        if (Status s = Receive(1, 0); !s.ok()) return s;
        if (Status s = Check(kTarget, n, 6, "Write"); !s.ok()) return s;
        if (Status s = Remote(nd::RequestType::kRead, kTarget, n, kOut); !s.ok()) return s;
        if (Status s = Check(kTarget, n, 6, "Read"); !s.ok()) return s;
        Fill(n, 5);
        if (Status s = Send(1); !s.ok()) return s;
        return Receive(1, 0);
      };
      if (Status s = steps(); !s.ok()) return {s.code(), std::to_string(n) + " bytes: " + s.ToString()};
    }
    return {};
  }

  void Fill(std::uint32_t n, std::uint32_t seed) {
    for (std::uint32_t i = 0; i < n; ++i) buffer_.data()[kOut + i] = Pattern(i, n, seed);
    // Clears the memory that the Read will fill.
    std::memset(buffer_.data() + kTarget, 0, n);
  }
  Status Check(std::uint32_t at, std::uint32_t n, std::uint32_t seed, const char* what) const {
    for (std::uint32_t i = 0; i < n; ++i) {
      if (buffer_.data()[at + i] != Pattern(i, n, seed))
        return Wrong(std::string(what) + ": wrong at " + std::to_string(i));
    }
    return {};
  }
  Status PostReceive() {
    const nd::Sge sge = region_.Slice(buffer_.data() + kIn, kMost);
    return pair_.Receive(nullptr, {&sge, 1});
  }
  nd::Result<nd::Completion> Next(nd::RequestType type) {
    // A receive may complete before the send that caused it.
    for (std::size_t i = 0; i < early_.size(); ++i) {
      if (early_[i].type != type) continue;
      const nd::Completion found = early_[i];
      early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    for (;;) {
      const auto done = queue_.Next(kPatience);
      if (!done.ok()) return done.status();
      if (done->status != StatusCode::kSuccess) return Status(done->status, "a request failed");
      if (done->type == type) return *done;
      early_.push_back(*done);
    }
  }
  Status Send(std::uint32_t n) {
    const nd::Sge sge = region_.Slice(buffer_.data() + kOut, n);
    if (Status s = pair_.Send(nullptr, {&sge, 1}); !s.ok()) return s;
    return Next(nd::RequestType::kSend).status();
  }
  Status Receive(std::uint32_t n, std::uint32_t seed) {
    const auto done = Next(nd::RequestType::kReceive);
    if (!done.ok()) return done.status();
    if (done->bytes_transferred != n)
      return Wrong(std::to_string(done->bytes_transferred) + " bytes received");
    if (seed != 0) {
      if (Status s = Check(kIn, n, seed, "Send"); !s.ok()) return s;
    }
    return PostReceive();
  }
  Status Remote(nd::RequestType type, std::uint32_t at, std::uint32_t n, std::uint32_t remote) {
    const nd::Sge sge = region_.Slice(buffer_.data() + at, n);
    if (type == nd::RequestType::kRead) std::memset(buffer_.data() + at, 0, n);
    const Status posted = type == nd::RequestType::kWrite
                              ? pair_.Write(nullptr, {&sge, 1}, peer_.address + remote, peer_.key)
                              : pair_.Read(nullptr, {&sge, 1}, peer_.address + remote, peer_.key);
    return posted.ok() ? Next(type).status() : posted;
  }

  nd::Adapter adapter_;
  nd::Address local_, at_;
  nd::Listener listener_;
  nd::CompletionQueue queue_;
  nd::Buffer buffer_;
  nd::MemoryRegion region_;
  nd::QueuePair pair_;
  nd::Connector connector_;
  PeerMemory peer_;
  std::vector<nd::Completion> early_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: soft_peer serve|connect LOCAL-IP ADDRESS:PORT SCENARIO...\n", stderr);
    return 2;
  }
  const bool active = std::string(argv[1]) == "connect";
  const auto local = nd::Address::Parse(argv[2]), at = nd::Address::Parse(argv[3]);
  nd::OpenOptions open;
  open.application = "soft_peer";
  if (local.ok()) open.local = *local;
  auto adapter = nd::Adapter::Open(open);
  if (!local.ok() || !at.ok() || !adapter.ok()) {
    std::fprintf(stderr, "soft_peer: %s\n", adapter.status().ToString().c_str());
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Peer peer(*adapter, *local, *at);
  if (!active) {
    if (Status s = peer.Listen(); !s.ok()) {
      std::fprintf(stderr, "soft_peer: %s\n", s.ToString().c_str());
      return 2;
    }
    std::printf("listening\n");
  }
  int failures = 0;
  for (int i = 4; i < argc; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const Status status = peer.Run(argv[i], active);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    std::printf("%s soft %s, %s: %s (%.1f s)\n", status.ok() ? "ok  " : "FAIL", active ? "active" : "passive",
                argv[i], status.ok() ? "as expected" : status.ToString().c_str(), seconds);
    if (!status.ok()) ++failures;
  }
  return failures;
}
