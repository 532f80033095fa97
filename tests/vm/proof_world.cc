// SPDX-License-Identifier: Apache-2.0
// Lets the scenarios read as the steps of an application and its peer.
#include "tests/vm/proof_world.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace nd::vm {
namespace {

constexpr auto kPatience = std::chrono::seconds(40);  // An emulated machine on a busy host is slow.

template <typename T>
T Must(Result<T> result, const char* what) {
  if (!result.ok()) {
    std::printf("FAIL %s: %s\n", what, result.status().ToString().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

}  // namespace

std::optional<Completion> Side::Next(std::chrono::milliseconds patience) const {
  Completion completion;
  const Time deadline = Time(std::chrono::steady_clock::now()) + patience;
  for (;;) {
    if (cq->Poll({&completion, 1}) == 1) return completion;
    if (!cq->Wait(deadline).ok()) return std::nullopt;
  }
}

World::World() : cm_(std::make_unique<provider::verbs::VerbsCm>(provider::verbs::Options{}, loop_, *this)) {
  thread_ = std::thread([this] { loop_.Run(); });
}

World::~World() {
  OnLoop([this](provider::verbs::VerbsCm&) { cm_.reset(); });
  loop_.Stop();
  thread_.join();
}

void World::OnLoop(const std::function<void(provider::verbs::VerbsCm&)>& function) {
  bool done = false;
  loop_.Post([&] {
    function(*cm_);
    std::lock_guard lock(mutex_);
    done = true;
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done; });
}

std::optional<AdapterInfo> World::Adapter(const std::string& name) {
  std::optional<AdapterInfo> found;
  OnLoop([&](provider::verbs::VerbsCm& cm) {
    for (const auto& description : cm.adapters()) {
      if (description.info.name == name) found = description.info;
    }
  });
  return found;
}

Side World::MakeSide(const AdapterInfo& adapter, std::size_t bytes, std::uint32_t depth) {
  Side side;
  side.device = Must(provider::verbs::MakeVerbsDevice(adapter, {}), "open device");
  side.cq = Must(side.device->CreateCompletionQueue(4 * depth), "completion queue");
  provider::QpOptions options;
  options.receive_cq = options.initiator_cq = side.cq;
  options.receive_depth = options.initiator_depth = depth;
  options.max_receive_sge = options.max_initiator_sge = 4;
  options.inline_size = 32;
  side.qp = Must(side.device->CreateQueuePair(options), "queue pair");
  side.buffer = Must(side.device->AllocateBuffer(bytes), "buffer");
  side.region = Must(side.device->Register(side.buffer->data(), side.buffer->size(),
                                           kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink),
                     "region");
  return side;
}

template <typename Function>
void World::Change(Function function) {
  std::lock_guard lock(mutex_);
  function();
  changed_.notify_all();
}

Status World::Reserve(EndpointId endpoint, const std::string& adapter, const Address& local) {
  OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Reserve(endpoint, adapter, local); });
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return reserved_.contains(endpoint); })) {
    return {StatusCode::kUnsuccessful, "no answer to Reserve"};
  }
  return reserved_[endpoint];
}

void World::Listen(EndpointId endpoint, const std::string& adapter, const Address& local) {
  OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Listen(endpoint, adapter, local); });
}

CmId World::Connect(const AdapterInfo& adapter, EndpointId endpoint, const Address& local,
                    const Address& remote, const Side& side, ReadLimits offer, const Bytes& data,
                    std::uint32_t pid) {
  provider::ConnectParams params;
  params.id = CmId{next_id_++};
  params.endpoint = endpoint;
  params.adapter = adapter.name;
  params.local = local;
  params.remote = remote;
  params.offer = offer;
  params.private_data = data;
  params.device_qp = side.qp->device_number();
  params.owner_uid = ::getuid();
  params.owner_pid = pid == 0 ? static_cast<std::uint32_t>(::getpid()) : pid;
  Change([&] { queue_pairs_[params.id] = side.qp; });
  OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Connect(params); });
  return params.id;
}

std::optional<provider::InboundRequest> World::NextRequest() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return !requests_.empty(); })) return std::nullopt;
  const provider::InboundRequest request = requests_.front();
  requests_.erase(requests_.begin());
  return request;
}

void World::Accept(CmId id, const Side& side, ReadLimits limits, const Bytes& data) {
  provider::AcceptParams params;
  params.limits = limits;
  params.private_data = data;
  params.device_qp = side.qp->device_number();
  params.owner_uid = ::getuid();
  params.owner_pid = static_cast<std::uint32_t>(::getpid());
  Change([&] { queue_pairs_[id] = side.qp; });
  OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Accept(id, params); });
}

Status World::Attach(CmId id, const Side& side, std::uint32_t outbound) {
  Result<provider::HandOff> hand_off(StatusCode::kUnsuccessful);
  OnLoop([&](provider::verbs::VerbsCm& cm) { hand_off = cm.TakeHandOff(id); });
  if (!hand_off.ok()) return hand_off.status();
  hand_off->record.read_outbound = outbound;
  return side.qp->Attach(std::move(hand_off).value());
}

void World::Confirm(CmId id) {
  OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Confirm(id); });
}

bool World::Wait(CmId id, const std::function<bool(const Told&)>& ready) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return ready(told_[id]); });
}

Told World::Of(CmId id) {
  std::lock_guard lock(mutex_);
  return told_[id];
}

void World::Forget(std::initializer_list<CmId> ids) {
  Change([&] {
    for (const CmId id : ids) queue_pairs_.erase(id);
  });
}

void World::Finish(CmId id, const Status& status, const Bytes& data) {
  Change([&] {
    told_[id].finished = true;
    told_[id].status = status;
    told_[id].data = data;
  });
}

void World::OnReserved(EndpointId endpoint, const Status& status) {
  Change([&] { reserved_[endpoint] = status; });
}
void World::OnRequest(const provider::InboundRequest& request) {
  Change([&] { requests_.push_back(request); });
}
void World::OnReply(CmId id, bool, const ReadLimits& peer, const Bytes& data) {
  Change([&] {
    told_[id].replied = true;
    told_[id].peer = peer;
    told_[id].data = data;
  });
}
void World::OnRejected(CmId id, const Status& status, const Bytes& data) {
  Finish(id, status, data);
}
void World::OnFailed(CmId id, const Status& status) {
  Finish(id, status, {});
}
void World::OnLost(CmId id, const Status& status, const Bytes& data) {
  Finish(id, status, data);
}

void World::OnPrepare(CmId id, const Bytes& attributes) {
  std::shared_ptr<provider::QueuePair> queue_pair;
  Change([&] { queue_pair = queue_pairs_[id]; });
  const Status status = queue_pair->Prepare(attributes);
  loop_.Post([this, id, status] {
    if (cm_) cm_->Prepared(id, status);
  });
}

void World::OnEstablished(CmId id) {
  Change([&] { told_[id].established = true; });
}
void World::OnPeerClosed(CmId id, DisconnectReason) {
  Change([&] { told_[id].peer_closed = true; });
}
void World::OnDisconnected(CmId id, const Status& status) {
  Change([&] {
    told_[id].disconnected = true;
    told_[id].status = status;
  });
}
// The scenarios query the adapters themselves.
void World::OnAdaptersChanged() {}

}  // namespace nd::vm
