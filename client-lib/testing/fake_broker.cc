// SPDX-License-Identifier: Apache-2.0
// Replaces the daemon: the same messages, without a process and with no socket except the lane.
#include "client-lib/testing/fake_broker.h"

#include <algorithm>
#include <utility>

#include "client-lib/src/face.h"

namespace nd::client {
namespace {

constexpr std::size_t kCounters = provider::kCounterSlotsPerPage * sizeof(provider::QpCounters);

}  // namespace

class FakeBroker::Link final : public LaneMessages {
 public:
  Link(FakeBroker* broker, Sink* sink) : broker_(broker), sink_(sink), thread_([this] { Run(); }) {}
  ~Link() override { Close(); }

  bool Send(std::span<const std::byte> bytes) override {
    std::lock_guard lock(mutex_);
    if (over_) return false;
    work_.push_back([this, message = session::DecodeClientMessage(bytes).value()] {
      broker_->Record(message);
      auto reply = broker_->Answer(message);
      if (!reply) return;
      Deliver(session::Completion{message.op_id, reply->status, std::move(*reply)});
    });
    wake_.notify_all();
    return true;
  }

  bool SendTogether(std::span<const std::vector<std::byte>> messages) override {
    ++broker_->groups_;
    broker_->together_ += static_cast<int>(messages.size());
    return std::all_of(messages.begin(), messages.end(), [this](const auto& bytes) { return Send(bytes); });
  }

  bool SendLater(std::span<const std::byte> bytes) override {
    ++broker_->put_off_;
    return Send(bytes);
  }

  bool TrySend(std::span<const std::byte> bytes) override {
    if (broker_->full_) return false;
    broker_->last_at_once_ = std::this_thread::get_id();
    return Send(bytes);
  }

  void Attend() override { ++broker_->attended_; }

  void Push(session::ServerMessage message) {
    std::lock_guard lock(mutex_);
    work_.push_back([this, message = std::move(message)] { Deliver(message); });
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
    if (broker_->link_ == this) broker_->link_ = nullptr;
  }

 private:
  void Deliver(const session::ServerMessage& message) {
    std::vector<std::byte> bytes;
    session::Append(message, &bytes);
    sink_->OnMessage(bytes);
  }

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
    token.features = features_;
    Status sent = SendWithFds(lane_.get(), std::as_bytes(std::span(&token, 1)), {});
    if (!sent.ok()) return sent;
    channel.open_carrier = [this](BrokerLane&, Carrier::Sink* sink) -> Result<std::unique_ptr<Carrier>> {
      auto link = std::make_unique<Link>(this, sink);
      std::lock_guard link_lock(mutex_);
      link_ = link.get();
      return std::unique_ptr<Carrier>(std::move(link));
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
  return Made<Adapter>(OpenAdapter(SessionOptionsOf(options), environment())).value();
}

std::string FakeBroker::NameOf(const session::ClientMessage& message) {
  const auto* op = std::get_if<session::Operation>(&message.content);
  return op != nullptr ? session::OperationName(op->index()) : session::kHelloCase.name;
}

void FakeBroker::On(const std::string& name, Handler handler) {
  std::lock_guard lock(mutex_);
  handlers_[name] = std::move(handler);
}

void FakeBroker::Send(session::ServerMessage message) {
  std::lock_guard lock(mutex_);
  if (link_ != nullptr) link_->Push(std::move(message));
}

void FakeBroker::Complete(session::OpId op_id, Status status) {
  Send(session::Completion{op_id, std::move(status), {}});
}

std::uint64_t FakeBroker::SendHandOff(session::Handle connector,
                                      const std::function<void(provider::HandOffRecord&)>& damage) {
  std::lock_guard lock(mutex_);
  provider::HandOffRecord record;
  record.id = next_hand_off_++;
  record.connector = connector.value;
  record.transport = provider::TransportKind{1};
  record.fd_count = 1;
  if (damage) damage(record);
  UniqueFd read_end, write_end;
  static_cast<void>(MakeSeqpacketPair(&read_end, &write_end));
  const int fds[] = {read_end.get()};
  static_cast<void>(SendWithFds(lane_.get(), std::as_bytes(std::span(&record, 1)), fds));
  return record.id;
}

void FakeBroker::GiveCounters(std::uint32_t slot) {
  On<session::CreateQueuePairOp>([this, slot](const session::ClientMessage&) {
    constexpr std::size_t kSize = kCounters + sizeof(provider::RegionTable);
    std::lock_guard lock(mutex_);
    const UniqueFd memory = CreateSealedMemfd("fake counters", kSize).value();
    counters_ = Mapping::Map(memory.get(), kSize, true).value();
    provider::CountersPageRecord record;
    record.id = next_hand_off_++;
    record.slot_count = provider::kCounterSlotsPerPage;
    provider::RegionRowsOf(record) = provider::kRegionRows;
    const int fds[] = {memory.get()};
    static_cast<void>(SendWithFds(lane_.get(), std::as_bytes(std::span(&record, 1)), fds));
    Reply reply;
    reply.handle = {next_handle_++};
    reply.counter_slot = slot;
    return reply;
  });
}

const provider::QpCounters* FakeBroker::counters(std::uint32_t slot) {
  std::lock_guard lock(mutex_);
  return reinterpret_cast<const provider::QpCounters*>(counters_.data()) + slot;
}

provider::SpareWords& FakeBroker::spares() {
  std::lock_guard lock(mutex_);
  return reinterpret_cast<provider::RegionTable*>(counters_.data() + kCounters)->spares;
}

void FakeBroker::Kill() {
  std::lock_guard lock(mutex_);
  running_ = false;
  lane_.reset();
  if (link_ != nullptr) link_->End();
}

void FakeBroker::Start() {
  std::lock_guard lock(mutex_);
  running_ = true;
}

session::ClientMessage FakeBroker::Await(const std::string& name, std::size_t count) {
  std::unique_lock lock(mutex_);
  const auto named = [&name](const session::ClientMessage& message) { return NameOf(message) == name; };
  changed_.wait(lock, [&] {
    return std::count_if(messages_.begin(), messages_.end(), named) >= static_cast<std::ptrdiff_t>(count);
  });
  return *std::find_if(messages_.rbegin(), messages_.rend(), named);
}

std::size_t FakeBroker::Count(const std::string& name) {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(messages_.begin(), messages_.end(),
                    [&name](const session::ClientMessage& message) { return NameOf(message) == name; }));
}

std::vector<std::string> FakeBroker::Names() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const session::ClientMessage& message : messages_) names.push_back(NameOf(message));
  return names;
}

bool FakeBroker::Acknowledged(std::uint64_t id) {
  provider::AckRecord record;
  auto message = ReceiveWithFds(lane_.get(), std::as_writable_bytes(std::span(&record, 1)), true);
  return message.ok() && message->size == sizeof(record) && record.magic == provider::AckRecord::kMagic &&
         record.id == id;
}

void FakeBroker::Record(const session::ClientMessage& message) {
  std::lock_guard lock(mutex_);
  messages_.push_back(message);
  changed_.notify_all();
}

std::optional<Reply> FakeBroker::Answer(const session::ClientMessage& message) {
  Handler handler;
  Reply reply;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = handlers_.find(NameOf(message)); it != handlers_.end()) handler = it->second;
    reply.handle = {next_handle_++};
  }
  if (handler) return handler(message);
  const auto* op = std::get_if<session::Operation>(&message.content);
  if (op == nullptr) return reply;
  if (std::holds_alternative<session::OpenAdapterOp>(*op)) reply.adapters.push_back(FakeDevice::Info());
  if (const auto* bind = std::get_if<session::BindOp>(op)) reply.address = bind->local.WithPort(50000);
  if (const auto* complete = std::get_if<session::CompleteConnectOp>(op)) {
    reply.hand_off = SendHandOff(complete->connector);
    reply.proof = kProof;
  }
  if (const auto* accept = std::get_if<session::AcceptOp>(op)) {
    reply.hand_off = SendHandOff(accept->connector);
    reply.proof = kProof;
  }
  return reply;
}

}  // namespace nd::client
