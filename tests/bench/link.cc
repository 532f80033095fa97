// SPDX-License-Identifier: Apache-2.0
// The ends exchange the addresses of their memory as private data of Connect and Accept.
#include "tests/bench/link.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/os/wait.h"
#include "tests/bench/stamp.h"

namespace nd::perf {
namespace {

constexpr std::uint32_t kMagic = 0x6e647066;

// Both ends run on one machine, so host byte order suffices.
struct PeerMemory {
  std::uint64_t address;
  std::uint32_t token;
  std::uint32_t magic;
};

constexpr std::uint32_t kVerdictLength = 16;
constexpr std::uint64_t kWell = 0x77656c6c;

}  // namespace

Status Link::Prepare(Adapter& adapter, const Options& options, std::uint32_t slots, std::uint32_t receives) {
  waiting_ = options.waiting;
  on_device_ = adapter.info().provider == "verbs";
  adapter_ = adapter;
  options_ = &options;
  slots_ = slots;
  receives_ = receives;
  stride_ = (std::max<std::size_t>(options.size, 64) + 63) & ~std::size_t{63};
  auto cq = adapter.CreateCompletionQueue(2 * (slots + receives) + 16);
  if (!cq.ok()) return cq.status();
  cq_ = *cq;
  const std::size_t length = stride_ * (2 * std::size_t{slots} + receives);
  constexpr std::uint32_t kAccess = kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite;
  if (options.ordinary_memory) {
    ordinary_.resize(length);
    memory_ = ordinary_.data();
  } else {
    auto buffer = adapter.AllocateBuffer(length);
    if (!buffer.ok()) return buffer.status();
    buffer_ = *buffer;
    memory_ = buffer_.data();
  }
  auto region = options.ordinary_memory ? adapter.Register(memory_, length, kAccess)
                                        : adapter.Register(buffer_, kAccess);
  if (!region.ok()) return region.status();
  region_ = *region;
  for (std::uint32_t i = 0; i < slots; ++i) FillPattern(slot(i), options.size);
  return Status::Ok();
}

Status Link::NewQueuePair() {
  QueuePairOptions options;
  options.receive_cq = &cq_;
  options.initiator_cq = &cq_;
  options.receive_depth = receives_;
  options.initiator_depth = slots_ + 4;
  options.max_receive_sge = 1;
  options.max_initiator_sge = 1;
  auto qp = adapter_.CreateQueuePair(options);
  if (!qp.ok()) return qp.status();
  qp_ = *qp;
  outstanding_ = 0;
  messages_.clear();
  for (std::uint32_t i = 0; i < receives_; ++i) {
    if (Status status = Repost(receive_slot(i)); !status.ok()) return status;
  }
  auto connector = adapter_.CreateConnector();
  if (!connector.ok()) return connector.status();
  connector_ = *connector;
  return Status::Ok();
}

Status Link::TakePeerMemory() {
  const auto data = connector_.GetPrivateData();
  if (!data.ok()) return data.status();
  PeerMemory peer{};
  if (data->size() < sizeof(peer)) return {StatusCode::kRemoteError, "the other end is not ndperf"};
  std::memcpy(&peer, data->data(), sizeof(peer));
  if (peer.magic != kMagic) return {StatusCode::kRemoteError, "the other end is not ndperf"};
  peer_address_ = peer.address;
  peer_token_ = peer.token;
  return Status::Ok();
}

Status Link::Connect(const Address& local, const Address& remote) {
  if (Status status = connector_.Bind(local); !status.ok()) return status;
  const PeerMemory mine{reinterpret_cast<std::uintptr_t>(memory_), region_.remote_token(), kMagic};
  ConnectOptions options;
  options.private_data = std::as_bytes(std::span(&mine, 1));
  if (Status status = connector_.Connect(qp_, remote, options); !status.ok()) return status;
  if (Status status = TakePeerMemory(); !status.ok()) return status;
  return connector_.CompleteConnect();
}

Status Link::Accept() {
  if (Status status = TakePeerMemory(); !status.ok()) return status;
  const PeerMemory mine{reinterpret_cast<std::uintptr_t>(memory_), region_.remote_token(), kMagic};
  ConnectOptions options;
  options.private_data = std::as_bytes(std::span(&mine, 1));
  return connector_.Accept(qp_, options);
}

Status Link::Disconnect() {
  Status status = connector_.Disconnect();
  // The side that disconnects second finds the connection gone, which is fine.
  if (status == StatusCode::kConnectionInvalid || status == StatusCode::kConnectionDisconnected)
    status = Status::Ok();
  // Drops the flushed receives, because the next queue pair uses the same completion queue.
  std::array<Completion, 64> dropped;
  while (cq_.Poll(dropped) > 0) {
  }
  return status;
}

Status Link::AwaitGoodbye() {
  if (Status status = connector_.NotifyDisconnect();
      !status.ok() && !(status == StatusCode::kConnectionDisconnected)) {
    return status;
  }
  return Disconnect();
}

Status Link::Poll() {
  const std::size_t count = cq_.Poll(done_);
  for (std::size_t i = 0; i < count; ++i) {
    if (done_[i].status != StatusCode::kSuccess) return {done_[i].status, "a request failed"};
    if (done_[i].type == RequestType::kReceive) {
      messages_.push_back(static_cast<std::byte*>(done_[i].request_context));
    } else {
      --outstanding_;
    }
  }
  return Status::Ok();
}

Status Link::Wait() {
  Patience patience;
  const std::size_t messages = messages_.size();
  const std::uint32_t outstanding = outstanding_;
  for (;;) {
    if (Status status = Poll(); !status.ok()) return status;
    if (messages_.size() != messages || outstanding_ != outstanding) return Status::Ok();
    if (waiting_ != Waiting::kPoll) {
      if (Status status = Sleep(); !status.ok()) return status;
    } else if (patience.Ended()) {
      return {StatusCode::kIoTimeout, "nothing completed for 30 seconds"};
    }
  }
}

Status Link::Sleep() {
  if (waiting_ == Waiting::kBlock) return cq_.Wait(kStuck);
  if (Status status = cq_.Notify(NotifyType::kAny); !status.ok()) return status;
  os::Watched ready{.fd = cq_.handle()};
  if (os::Wait({&ready, 1}, kStuck) != 1) {
    return {StatusCode::kIoTimeout, "no notification for 30 seconds"};
  }
  cq_.ConsumeNotification();
  return Status::Ok();
}

Status Link::AwaitRequests(std::uint32_t most) {
  while (outstanding_ > most) {
    if (Status status = Wait(); !status.ok()) return status;
  }
  return Status::Ok();
}

Result<std::byte*> Link::NextMessage() {
  while (messages_.empty()) {
    if (Status status = Wait(); !status.ok()) return status;
  }
  std::byte* message = messages_.front();
  messages_.pop_front();
  return message;
}

Status Link::Send(std::uint32_t index, std::uint32_t length, std::uint32_t flags) {
  const Sge sge = region_.Slice(slot(index), length);
  Status status = qp_.Send(nullptr, {&sge, 1}, flags);
  if (status.ok() && (flags & kOpSilentSuccess) == 0) ++outstanding_;
  return status;
}

Status Link::Write(std::uint32_t index, std::uint32_t remote_slot, std::uint32_t flags) {
  const Sge sge = region_.Slice(slot(index), options_->size);
  Status status =
      qp_.Write(nullptr, {&sge, 1}, peer_address_ + (slots_ + remote_slot) * stride_, peer_token_, flags);
  if (status.ok() && (flags & kOpSilentSuccess) == 0) ++outstanding_;
  return status;
}

Status Link::Read(std::uint32_t index, std::uint32_t remote_slot) {
  const Sge sge = region_.Slice(slot(index), options_->size);
  Status status = qp_.Read(nullptr, {&sge, 1}, peer_address_ + (slots_ + remote_slot) * stride_, peer_token_);
  if (status.ok()) ++outstanding_;
  return status;
}

Status Link::Repost(std::byte* slot) {
  const Sge sge = region_.Slice(slot, stride_);
  return qp_.Receive(slot, {&sge, 1});
}

Status Link::SayDone() {
  if (Status status = Send(0, 1); !status.ok()) return status;
  return AwaitVerdict();
}

Status Link::AwaitVerdict() {
  const auto message = NextMessage();
  if (!message.ok()) return message.status();
  std::uint64_t verdict = 0;
  std::memcpy(&verdict, *message, sizeof(verdict));
  if (verdict != kWell)
    return {StatusCode::kDataOverrun, "the other end received something else than was sent"};
  return AwaitRequests(0);
}

Status Link::SendVerdict(bool well) {
  const std::uint64_t verdict = well ? kWell : 0;
  std::memcpy(slot(0), &verdict, sizeof(verdict));
  // The other end may disconnect as soon as it has read this message, so the Send may complete with CANCELED.
  return Send(0, kVerdictLength);
}

}  // namespace nd::perf
