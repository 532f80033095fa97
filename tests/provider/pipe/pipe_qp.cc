// SPDX-License-Identifier: Apache-2.0
// The client half: a send is one datagram; Poll() moves the data.
#include <sys/socket.h>

#include <algorithm>
#include <deque>

#include "tests/provider/pipe/pipe_provider.h"

namespace nd::provider::pipe {
namespace {

const Status kNotSupported(StatusCode::kNotSupported, "pipe only sends and receives");

class PipeQp;

struct PipeCq final : CompletionQueue {
  std::size_t Poll(std::span<Completion> out) override;
  Status Notify(NotifyType) override { return kNotSupported; }
  int handle() const override { return -1; }
  void ConsumeNotification() override {}
  Status Wait(Time) override { return kNotSupported; }
  Status Resize(std::uint32_t) override { return kNotSupported; }
  Status state() const override { return {}; }

  std::vector<PipeQp*> receivers;
  std::deque<Completion> done;
};

class PipeQp final : public QueuePair {
 public:
  explicit PipeQp(const QpOptions& options)
      : context_(options.context),
        receives_(std::static_pointer_cast<PipeCq>(options.receive_cq)),
        sends_(std::static_pointer_cast<PipeCq>(options.initiator_cq)) {
    receives_->receivers.push_back(this);
  }
  ~PipeQp() override { std::erase(receives_->receivers, this); }

  Status Attach(HandOff hand_off) override {
    if (hand_off.record.transport != kTransport || hand_off.fds.size() != 1) {
      return {StatusCode::kInternalError, "the hand-over is not one of pipe", Detail::kProtocol};
    }
    socket_ = std::move(hand_off.fds[0]);
    return {};
  }
  Status Receive(void* request, std::span<const Sge> sges) override {
    if (sges.size() != 1) return kNotSupported;
    posted_.emplace_back(request, sges[0]);
    return {};
  }
  Status Send(void* request, std::span<const Sge> sges, std::uint32_t) override {
    if (sges.size() != 1) return kNotSupported;
    const ssize_t sent = ::send(socket_.get(), sges[0].address, sges[0].length, MSG_NOSIGNAL);
    if (sent < 0) return {StatusCode::kDeviceBusy, "the socket takes no more"};
    sends_->done.push_back({StatusCode::kSuccess, sges[0].length, context_, request, RequestType::kSend});
    return {};
  }
  void TakeArrived() {
    while (!posted_.empty()) {
      const auto [request, sge] = posted_.front();
      const ssize_t got = ::recv(socket_.get(), sge.address, sge.length, 0);
      if (got <= 0) return;
      receives_->done.push_back(
          {StatusCode::kSuccess, static_cast<std::uint32_t>(got), context_, request, RequestType::kReceive});
      posted_.pop_front();
    }
  }
  Status SendAndInvalidate(void*, std::span<const Sge>, std::uint32_t, std::uint32_t) override {
    return kNotSupported;
  }
  Status Write(void*, std::span<const Sge>, std::uint64_t, std::uint32_t, std::uint32_t) override {
    return kNotSupported;
  }
  Status Read(void*, std::span<const Sge>, std::uint64_t, std::uint32_t, std::uint32_t) override {
    return kNotSupported;
  }
  Status BindWindow(void*, MemoryRegion&, MemoryWindow&, void*, std::size_t, std::uint32_t) override {
    return kNotSupported;
  }
  Status Invalidate(void*, MemoryWindow&, std::uint32_t) override { return kNotSupported; }
  Status Flush() override { return {}; }
  void Disconnect(Duration, std::function<void(Status)> done) override {
    Drop();
    done(Status::Ok());
  }
  void Drop() override { socket_.reset(); }

 private:
  void* const context_;
  const std::shared_ptr<PipeCq> receives_, sends_;
  UniqueFd socket_;
  std::deque<std::pair<void*, Sge>> posted_;
};

std::size_t PipeCq::Poll(std::span<Completion> out) {
  for (PipeQp* const receiver : receivers) receiver->TakeArrived();
  const std::size_t count = std::min(out.size(), done.size());
  std::copy_n(done.begin(), count, out.begin());
  done.erase(done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

struct PipeDevice final : Device {
  Result<std::shared_ptr<Buffer>> AllocateBuffer(std::size_t) override { return kNotSupported; }
  Result<std::shared_ptr<MemoryRegion>> Register(void*, std::size_t, std::uint32_t) override {
    return kNotSupported;
  }
  Result<std::shared_ptr<MemoryWindow>> CreateWindow() override { return kNotSupported; }
  Result<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t) override {
    return std::shared_ptr<CompletionQueue>(std::make_shared<PipeCq>());
  }
  Result<std::shared_ptr<SharedReceiveQueue>> CreateSharedReceiveQueue(std::uint32_t,
                                                                       std::uint32_t) override {
    return kNotSupported;
  }
  Result<std::shared_ptr<QueuePair>> CreateQueuePair(const QpOptions& options) override {
    return std::shared_ptr<QueuePair>(std::make_shared<PipeQp>(options));
  }
};

}  // namespace

Result<std::shared_ptr<Device>> MakePipeDevice(const AdapterInfo&, const DeviceOptions&) {
  return std::shared_ptr<Device>(std::make_shared<PipeDevice>());
}

}  // namespace nd::provider::pipe
