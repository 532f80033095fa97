// SPDX-License-Identifier: Apache-2.0
// Connects as an application does, so that its times and refusals are those of applications.
#include "cli/probe.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>

#include "cli/ping.h"

namespace nd::cli {
namespace {

// A finished or started operation with a promise for its completion; freed by the library with its callback.
struct Pending {
  std::shared_ptr<std::promise<Status>> promise = std::make_shared<std::promise<Status>>();
  std::future<Status> future = promise->get_future();
  Request request{[promise = promise](const Status& status) { promise->set_value(status); }};
};

Status Await(std::future<Status> done, const Status& started, std::chrono::nanoseconds timeout) {
  if (!started.pending()) return started;
  if (done.wait_for(timeout) == std::future_status::ready) return done.get();
  return {StatusCode::kIoTimeout, "no answer within --timeout"};
}

}  // namespace

Probe::Probe(Context& context, const ProbeOptions& options)
    : context_(context),
      options_(options),
      timeout_(std::chrono::microseconds(static_cast<long long>(context.globals.timeout * 1e6))) {}

void Probe::Begin(const char* name) {
  phases_.push_back({name, 0});
  phase_start_ = std::chrono::steady_clock::now();
}

void Probe::End() {
  phases_.back().seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - phase_start_).count();
}

Failure Probe::Fail(const Status& status, const std::string& what) {
  Failure failure = FailureOf(status, what);
  if (!failure) return failure;
  End();
  status_ = status;
  // Statuses that mean "no such object" for lists have other meanings here.
  if (failure->exit == Exit::kNotFound) failure->exit = Exit::kFailed;
  switch (status.detail()) {
    case Detail::kNoListener:
      failure->hint =
          "the host answered, but nothing listens on that port; see ndctl listener list over there";
      break;
    case Detail::kPaused:
      failure->hint = status == StatusCode::kConnectionRefused
                          ? "ndctl listener resume ID over there lets it answer again"
                          : "ndctl undrain takes new work again";
      break;
    case Detail::kBacklogFull:
      failure->hint = "the application over there does not take its waiting requests";
      break;
    case Detail::kPolicy:
      failure->hint = "ndctl policy explain connect " + remote_.ToString() + " shows which rule decides this";
      break;
    case Detail::kBrokerUnreachable:
      failure->hint =
          "start ndbrokerd, or name the directory of its sockets with --address DIR or $NDBROKER_DIR";
      break;
    default:
      break;
  }
  return failure;
}

Failure Probe::Open() {
  auto remote = Address::Parse(options_.address);
  if (!remote.ok() || remote->port() == 0) {
    return Error{Exit::kUsage,
                 "'" + options_.address + "' is not an address with a port",
                 "write 10.0.0.1:7000 or [::1]:7000",
                 {}};
  }
  remote_ = *remote;
  Begin("open");
  OpenOptions open;
  open.broker = context_.Directory();
  open.adapter = options_.adapter;
  open.application = options_.application;
  open.reconnect = false;
  auto adapter = Adapter::Open(open);
  if (!adapter.ok()) return Fail(adapter.status(), "cannot use the broker in " + open.broker);
  adapter_ = *adapter;
  End();
  Begin("resolve");
  auto local = adapter_.ResolveAddress(remote_);
  if (!local.ok()) return Fail(local.status(), "no way to " + remote_.ToString());
  local_ = *local;
  End();
  Begin("create");
  auto cq = adapter_.CreateCompletionQueue(4 * kPingDepth);
  if (!cq.ok()) return Fail(cq.status(), "cannot make a completion queue");
  cq_ = *cq;
  QueuePairOptions options;
  options.receive_cq = &cq_;
  options.initiator_cq = &cq_;
  options.receive_depth = kPingDepth;
  options.initiator_depth = kPingDepth;
  auto qp = adapter_.CreateQueuePair(options);
  if (!qp.ok()) return Fail(qp.status(), "cannot make a queue pair");
  qp_ = *qp;
  auto buffer = adapter_.AllocateBuffer(2ULL * options_.size);
  if (!buffer.ok()) return Fail(buffer.status(), "no memory");
  buffer_ = *buffer;
  auto region = adapter_.Register(buffer_, kAllowLocalWrite);
  if (!region.ok()) return Fail(region.status(), "cannot register memory");
  region_ = *region;
  auto connector = adapter_.CreateConnector();
  if (!connector.ok()) return Fail(connector.status(), "cannot make a connector");
  connector_ = *connector;
  End();
  return std::nullopt;
}

Failure Probe::Connect() {
  Begin("bind");
  if (Failure failure = Fail(connector_.Bind(local_), "cannot bind " + local_.IpToString())) return failure;
  End();
  ConnectOptions options;
  options.limits.inbound = std::min(options.limits.inbound, adapter_.info().max_inbound_read_limit);
  options.limits.outbound = std::min(options.limits.outbound, adapter_.info().max_outbound_read_limit);
  options.private_data = AsPrivateData(kPingMagic);
  const std::string to = "cannot connect to " + remote_.ToString();
  Begin("connect");
  Pending connect;
  const Status started = connector_.Connect(qp_, remote_, options, &connect.request);
  if (Failure failure = Fail(Await(std::move(connect.future), started, timeout_), to)) return failure;
  End();
  if (const auto data = connector_.GetPrivateData(); data.ok()) {
    echoes_ = data->size() >= sizeof(kPingMagic) - 1 &&
              std::memcmp(data->data(), kPingMagic, sizeof(kPingMagic) - 1) == 0;
  }
  // A receive must be posted before the peer may send.
  const Sge sge = region_.Slice(buffer_.data() + options_.size, options_.size);
  if (Failure failure = Fail(qp_.Receive(nullptr, {&sge, 1}), "cannot post a receive")) return failure;
  Begin("complete");
  Pending complete;
  const Status completing = connector_.CompleteConnect(&complete.request);
  if (Failure failure = Fail(Await(std::move(complete.future), completing, timeout_), to)) return failure;
  End();
  if (const auto local = connector_.GetLocalAddress(); local.ok()) local_ = *local;
  return std::nullopt;
}

Result<Completion> Probe::Next() {
  auto completion = cq_.Next(timeout_);
  if (completion.ok() && completion->status != StatusCode::kSuccess) {
    return Status(completion->status, "the connection broke during the echo");
  }
  return completion;
}

Failure Probe::Echo(std::uint32_t count, std::vector<double>* round_trips) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::byte* out = buffer_.data();
    std::byte* in = out + options_.size;
    for (std::uint32_t j = 0; j < options_.size; ++j) out[j] = static_cast<std::byte>(i * 31 + j);
    const Sge sent = region_.Slice(out, options_.size);
    const auto start = std::chrono::steady_clock::now();
    if (Failure failure = Fail(qp_.Send(nullptr, {&sent, 1}), "cannot send")) return failure;
    bool received = false;
    for (int finished = 0; finished < 2; ++finished) {
      auto completion = Next();
      if (!completion.ok()) return Fail(completion.status(), "no echo from " + remote_.ToString());
      if (completion->type != RequestType::kReceive) continue;
      received = completion->bytes_transferred == options_.size;
      round_trips->push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    if (!received || std::memcmp(out, in, options_.size) != 0) {
      return Error{Exit::kFailed, "the echo from " + remote_.ToString() + " is not what was sent", {}, {}};
    }
    const Sge next = region_.Slice(in, options_.size);
    if (Failure failure = Fail(qp_.Receive(nullptr, {&next, 1}), "cannot post a receive")) return failure;
  }
  return std::nullopt;
}

void Probe::Disconnect() {
  Begin("disconnect");
  Pending disconnect;
  const Status started = connector_.Disconnect(&disconnect.request);
  const Status disconnected = Await(std::move(disconnect.future), started, timeout_);
  // The purpose of the probe is an answer. A peer that disconnected first, or does not disconnect, has
  // answered.
  if (!disconnected.ok()) phases_.back().name = "disconnect_unanswered";
  End();
}

}  // namespace nd::cli
