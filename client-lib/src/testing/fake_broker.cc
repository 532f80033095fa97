// SPDX-License-Identifier: Apache-2.0
// Stands where the daemon would: the same messages, no process, no socket but the lane.
#include "client-lib/src/testing/fake_broker.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace nd::client {

class FakeBroker::Stream final : public SessionStream {
 public:
  Stream(FakeBroker* broker, Sink* sink) : broker_(broker), sink_(sink), thread_([this] { Run(); }) {}
  ~Stream() override { Close(); }

  bool Send(const Op& op) override {
    std::lock_guard lock(mutex_);
    if (over_) return false;
    work_.push_back([this, op] {
      broker_->Record(op);
      auto reply = broker_->Answer(op);
      if (!reply) return;
      reply->id = op.id;
      sink_->OnMessage(std::move(*reply));
    });
    wake_.notify_all();
    return true;
  }

  void Push(Incoming message) {
    std::lock_guard lock(mutex_);
    work_.push_back([this, message = std::make_shared<Incoming>(std::move(message))] {
      sink_->OnMessage(std::move(*message));
    });
    wake_.notify_all();
  }

  void End() {
    std::lock_guard lock(mutex_);
    over_ = true;
    wake_.notify_all();
  }

  void Close() override {
    End();
    if (thread_.joinable()) thread_.join();
    std::lock_guard lock(broker_->mutex_);
    if (broker_->stream_ == this) broker_->stream_ = nullptr;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return over_ || !work_.empty(); });
      if (over_) break;
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
    lock.unlock();
    sink_->OnClosed({StatusCode::kDeviceRemoved, "the fake broker went away", Detail::kBrokerUnreachable});
  }

  FakeBroker* const broker_;
  Sink* const sink_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool over_ = false;
  std::thread thread_;
};

FakeBroker::FakeBroker() = default;
FakeBroker::~FakeBroker() = default;

Environment FakeBroker::environment() {
  Environment environment;
  environment.connect = [this]() -> Result<Channel> {
    std::lock_guard lock(mutex_);
    if (!running_)
      return Status(StatusCode::kDeviceNotReady, "the fake broker is down", Detail::kBrokerUnreachable);
    Channel channel;
    if (Status status = MakeSeqpacketPair(&lane_, &channel.lane); !status.ok()) return status;
    provider::TokenRecord token;
    Status sent = SendWithFds(lane_.get(), std::as_bytes(std::span(&token, 1)), {});
    if (!sent.ok()) return sent;
    channel.open_stream = [this](Lane&, SessionStream::Sink* sink) -> Result<std::unique_ptr<SessionStream>> {
      auto stream = std::make_unique<Stream>(this, sink);
      std::lock_guard stream_lock(mutex_);
      stream_ = stream.get();
      return std::unique_ptr<SessionStream>(std::move(stream));
    };
    return channel;
  };
  environment.open_device = [this](const AdapterInfo&) -> Result<std::shared_ptr<provider::Device>> {
    return std::shared_ptr<provider::Device>(device_);
  };
  environment.first_backoff = std::chrono::milliseconds(1);
  return environment;
}

Adapter FakeBroker::Open(const OpenOptions& options) {
  return OpenAdapter(options, environment()).value();
}

void FakeBroker::On(OpKind kind, Handler handler) {
  std::lock_guard lock(mutex_);
  handlers_[kind] = std::move(handler);
}

void FakeBroker::Send(Incoming message) {
  std::lock_guard lock(mutex_);
  if (stream_ != nullptr) stream_->Push(std::move(message));
}

void FakeBroker::Complete(std::uint64_t op_id, Status status) {
  Reply reply;
  reply.id = op_id;
  reply.status = std::move(status);
  Send(std::move(reply));
}

std::uint64_t FakeBroker::SendHandOff(std::uint64_t connector,
                                      const std::function<void(provider::HandOffRecord&)>& damage) {
  std::lock_guard lock(mutex_);
  provider::HandOffRecord record;
  record.id = next_hand_off_++;
  record.connector = connector;
  record.transport = provider::Transport::kIwarp;
  record.fd_count = 1;
  if (damage) damage(record);
  UniqueFd read_end, write_end;
  static_cast<void>(MakeSeqpacketPair(&read_end, &write_end));
  const int fds[] = {read_end.get()};
  static_cast<void>(SendWithFds(lane_.get(), std::as_bytes(std::span(&record, 1)), fds));
  return record.id;
}

void FakeBroker::GiveCounters(std::uint32_t slot) {
  On(OpKind::kCreateQueuePair, [this, slot](const Op&) {
    constexpr std::size_t kSize = provider::kCounterSlotsPerPage * sizeof(provider::QpCounters);
    std::lock_guard lock(mutex_);
    const UniqueFd memory = CreateSealedMemfd("fake counters", kSize).value();
    counters_ = Mapping::Map(memory.get(), kSize, true).value();
    provider::CountersPageRecord record;
    record.id = next_hand_off_++;
    record.slot_count = provider::kCounterSlotsPerPage;
    const int fds[] = {memory.get()};
    static_cast<void>(SendWithFds(lane_.get(), std::as_bytes(std::span(&record, 1)), fds));
    Reply reply;
    reply.handle = next_handle_++;
    reply.counter_slot = slot;
    return reply;
  });
}

const provider::QpCounters* FakeBroker::counters(std::uint32_t slot) {
  std::lock_guard lock(mutex_);
  return reinterpret_cast<const provider::QpCounters*>(counters_.data()) + slot;
}

void FakeBroker::Kill() {
  std::lock_guard lock(mutex_);
  running_ = false;
  lane_.reset();
  if (stream_ != nullptr) stream_->End();
}

void FakeBroker::Start() {
  std::lock_guard lock(mutex_);
  running_ = true;
}

Op FakeBroker::Await(OpKind kind, std::size_t count) {
  std::unique_lock lock(mutex_);
  const auto of_kind = [kind](const Op& op) { return op.kind == kind; };
  changed_.wait(lock, [&] {
    return std::count_if(ops_.begin(), ops_.end(), of_kind) >= static_cast<std::ptrdiff_t>(count);
  });
  return *std::find_if(ops_.rbegin(), ops_.rend(), of_kind);
}

std::size_t FakeBroker::Count(OpKind kind) {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(ops_.begin(), ops_.end(), [kind](const Op& op) { return op.kind == kind; }));
}

std::vector<OpKind> FakeBroker::Kinds() {
  std::lock_guard lock(mutex_);
  std::vector<OpKind> kinds;
  for (const Op& op : ops_) kinds.push_back(op.kind);
  return kinds;
}

bool FakeBroker::Acknowledged(std::uint64_t id) {
  provider::AckRecord record;
  auto message = ReceiveWithFds(lane_.get(), std::as_writable_bytes(std::span(&record, 1)), true);
  return message.ok() && message->size == sizeof(record) && record.magic == provider::AckRecord::kMagic &&
         record.id == id;
}

void FakeBroker::Record(const Op& op) {
  std::lock_guard lock(mutex_);
  ops_.push_back(op);
  changed_.notify_all();
}

std::optional<Reply> FakeBroker::Answer(const Op& op) {
  Handler handler;
  Reply reply;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = handlers_.find(op.kind); it != handlers_.end()) handler = it->second;
    reply.handle = next_handle_++;
  }
  if (handler) return handler(op);
  if (op.kind == OpKind::kOpenAdapter) reply.adapters.push_back(FakeDevice::Info());
  if (op.kind == OpKind::kBind) reply.address = op.local->WithPort(50000);
  if (op.kind == OpKind::kCompleteConnect || op.kind == OpKind::kAccept)
    reply.hand_off = SendHandOff(op.handle);
  return reply;
}

}  // namespace nd::client
