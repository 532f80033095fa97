// SPDX-License-Identifier: Apache-2.0
// For the programs of this folder: one end of a connection that exchanges data with stamps and checks every
// byte. Any mistake ends the program.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "provider/qp.h"
#include "provider/soft/limits.h"
#include "provider/soft/qp/soft_device.h"
#include "tests/windows/stamp.h"

namespace nd::provider::soft {

using stamped::Card, stamped::kLongest, stamped::LengthOf, stamped::Stamp;

inline constexpr Duration kPatience = std::chrono::seconds(60);
inline constexpr std::size_t kBatch = 32, kRounds = 64, kMessages = kRounds * kBatch, kArea = 1 << 20;
inline constexpr std::uint32_t kAccess =
    kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink;

inline void Require(bool good, std::string_view what) {
  if (good) return;
  std::fprintf(stderr, "exchange: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}
template <typename T>
T Need(Result<T> result) {
  Require(result.ok(), result.ok() ? "" : result.status().ToString());
  return std::move(result).value();
}
inline void Need(const Status& status) {
  Require(status.ok(), status.ToString());
}

class End {
 public:
  explicit End(bool active) : me_(active ? 1 : 2), peer_(3 - me_) {
    AdapterInfo info;
    info.name = "soft0";
    FillSoftAdapterInfo(&info);
    device_ = Need(MakeSoftDevice(info, {}, Tuning{.rnr_timeout = kPatience}));
    cq_ = Need(device_->CreateCompletionQueue(1024));
    QpOptions options;
    options.receive_cq = options.initiator_cq = cq_;
    options.receive_depth = options.initiator_depth = 256;
    options.max_receive_sge = options.max_initiator_sge = 1;
    qp_ = Need(device_->CreateQueuePair(options));
    in_ = Own(2 * kBatch * kLongest);
    out_ = Own(kBatch * kLongest);
    area_ = Own(kArea);
    copy_ = Own(kArea);
  }

  void Run(HandOff hand_off) {
    for (std::size_t i = 0; i < 2 * kBatch; ++i) PostReceive(i);
    Need(qp_->Attach(std::move(hand_off)));
    for (std::size_t round = 0; round < kRounds; ++round) Messages(round);
    Meet();
    const Card theirs = theirs_;
    // A Write into the area of the peer, and a Read of it.
    for (std::size_t i = 0; i < kArea; ++i) copy_.data[i] = Stamp(me_, 0, i);
    const Sge mine = Piece(copy_, 0, kArea);
    Need(qp_->Write(nullptr, {&mine, 1}, theirs.address, theirs.token, 0));
    WaitForRequest();
    Meet();  // Both Writes have arrived.
    CheckArea(area_, peer_, "the Write of the peer");
    std::memset(copy_.data, 0, kArea);
    Need(qp_->Read(nullptr, {&mine, 1}, theirs.address, theirs.token, 0));
    WaitForRequest();
    CheckArea(copy_, me_, "the Read");
    Meet();  // Both Reads are done.
    std::promise<Status> done;
    qp_->Disconnect(kPatience, [&](Status status) { done.set_value(std::move(status)); });
    Need(done.get_future().get());
    std::printf("%zu messages, %zu bytes written and read: right\n", kMessages, kArea);
  }

 private:
  struct Memory {
    std::shared_ptr<Buffer> buffer;
    std::shared_ptr<MemoryRegion> region;
    std::byte* data = nullptr;
  };
  Memory Own(std::size_t size) {
    Memory memory;
    memory.buffer = Need(device_->AllocateBuffer(size));
    memory.data = memory.buffer->data();
    memory.region = Need(device_->Register(memory.data, size, kAccess));
    return memory;
  }
  static Sge Piece(const Memory& memory, std::size_t offset, std::size_t size) {
    return {memory.data + offset, static_cast<std::uint32_t>(size), memory.region->local_token()};
  }
  static void CheckArea(const Memory& memory, unsigned sender, std::string_view what) {
    for (std::size_t i = 0; i < kArea; ++i) {
      if (memory.data[i] != Stamp(sender, 0, i)) {
        return Require(false, std::string(what) + " differs at byte " + std::to_string(i));
      }
    }
  }

  void PostReceive(std::size_t message) {
    const Sge in = Piece(in_, message % (2 * kBatch) * kLongest, kLongest);
    Need(qp_->Receive(reinterpret_cast<void*>(message), {&in, 1}));
  }
  void Until(const std::function<bool()>& condition) {
    while (!condition()) Take();
  }
  void Take() {
    Completion done;
    while (cq_->Poll({&done, 1}) == 0) Need(cq_->Wait(std::chrono::steady_clock::now() + kPatience));
    Require(done.status == StatusCode::kSuccess, "a request failed: " + std::string(Name(done.status)));
    if (done.type != RequestType::kReceive) {
      ++finished_;
      return;
    }
    const auto message = reinterpret_cast<std::uintptr_t>(done.request_context);
    Require(message == received_++, "a message came out of order");
    const std::byte* data = in_.data + message % (2 * kBatch) * kLongest;
    if (message >= kMessages) {
      Require(done.bytes_transferred == sizeof(Card), "a card has another length");
      std::memcpy(&theirs_, data, sizeof theirs_);
      return;
    }
    Require(done.bytes_transferred == LengthOf(message), "a message has another length");
    for (std::size_t at = 0; at < done.bytes_transferred; ++at) {
      Require(data[at] == Stamp(peer_, message, at), "a message has another content");
    }
    if (message + 2 * kBatch < kMessages + kCards) PostReceive(message + 2 * kBatch);
  }

  // At most one round is between the ends, so that two batches of receives suffice.
  void Messages(std::size_t round) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::size_t message = round * kBatch + i, size = LengthOf(message);
      const Sge out = Piece(out_, i * kLongest, size);
      for (std::size_t at = 0; at < size; ++at) out_.data[i * kLongest + at] = Stamp(me_, message, at);
      Need(qp_->Send(nullptr, {&out, 1}, 0));
    }
    posted_ += kBatch;
    Until([&] { return finished_ == posted_ && received_ >= (round + 1) * kBatch; });
  }
  // Returns when both ends have called it.
  void Meet() {
    const Card card{reinterpret_cast<std::uintptr_t>(area_.data), area_.region->remote_token()};
    std::memcpy(out_.data, &card, sizeof card);
    const Sge out = Piece(out_, 0, sizeof card);
    Need(qp_->Send(nullptr, {&out, 1}, 0));
    ++posted_;
    ++meetings_;
    Until([&] { return finished_ == posted_ && received_ >= kMessages + meetings_; });
  }
  void WaitForRequest() {
    ++posted_;
    Until([&] { return finished_ == posted_; });
  }

  static constexpr std::size_t kCards = 3;
  const unsigned me_, peer_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<CompletionQueue> cq_;
  Memory in_, out_, area_, copy_;
  std::size_t received_ = 0, posted_ = 0, finished_ = 0, meetings_ = 0;
  Card theirs_{};
  std::shared_ptr<QueuePair> qp_;
};

}  // namespace nd::provider::soft
