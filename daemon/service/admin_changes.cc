// SPDX-License-Identifier: Apache-2.0
// What an administrator can do to a running broker, and Watch.
#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/service/admin_service.h"
#include "daemon/service/id_text.h"
#include "daemon/service/outbox.h"

namespace nd::service {
namespace {

Status NoSuch(const std::string& what, const std::string& id) {
  return {StatusCode::kInvalidHandle, "there is no " + what + " \"" + id + "\""};
}

class WatchStream final : public Outbox<grpc::ServerWriteReactor<pb::WatchEvent>, pb::WatchEvent>,
                          public Watcher {
 public:
  WatchStream(grpc::CallbackServerContext* context, WatchHub& hub, std::size_t bound)
      : Outbox(context), hub_(hub), bound_(bound) {}

  void Start() { StartSendInitialMetadata(); }  // Tells the reader that it will miss nothing from now on.

  void Offer(const pb::WatchEvent& event) override {
    pb::WatchEvent copy = event;
    copy.set_lost(lost_);
    switch (Enqueue(std::move(copy), 1, bound_)) {
      case Put::kQueued:
        lost_ = 0;
        break;
      case Put::kFull:
        ++lost_;
        break;
      case Put::kEnded:
        break;
    }
  }
  void OnDone() override { hub_.Remove(this); }

 private:
  WatchHub& hub_;
  const std::size_t bound_;
  std::uint64_t lost_ = 0;  // Loop thread.
};

}  // namespace

grpc::ServerWriteReactor<pb::WatchEvent>* AdminService::Watch(Context* context, const pb::WatchRequest*) {
  auto stream = std::make_shared<WatchStream>(context, hub_, options_.watch_queue_events);
  WatchStream* reactor = stream.get();
  hub_.Add(std::move(stream));
  reactor->Start();
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::Change(Context* context, pb::Outcome* reply,
                                               std::function<Status()> change) {
  Unary* reactor = context->DefaultReactor();
  loop_.Post([reactor, reply, change = std::move(change)] {
    ToProto(change(), reply->mutable_status());
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SetAdapter(Context* context, const pb::SetAdapterRequest* request,
                                                   pb::Outcome* reply) {
  return Change(context, reply, [this, name = request->name(), enabled = request->enabled()]() -> Status {
    std::string known;
    bool found = false;
    for (const core::AdapterRow& row : shell_.core().Adapters()) {
      found |= row.description.info.name == name;
      known += (known.empty() ? "" : ", ") + row.description.info.name;
    }
    if (!found) {
      return {StatusCode::kInvalidParameter, "there is no adapter \"" + name + "\"; there are: " + known};
    }
    shell_.Run(core::SetAdapter{name, enabled});
    return Status::Ok();
  });
}

grpc::ServerUnaryReactor* AdminService::KillConnection(Context* context, const pb::KillRequest* request,
                                                       pb::Outcome* reply) {
  return Change(context, reply, [this, text = request->id()]() -> Status {
    const std::optional<std::uint64_t> id = ParseId('c', text);
    const auto rows = shell_.core().Connections();
    if (!id || std::none_of(rows.begin(), rows.end(), [&](const auto& row) { return row.id.value == *id; })) {
      return NoSuch("connection", text);
    }
    shell_.Run(core::KillConnection{{*id}});
    return Status::Ok();
  });
}

grpc::ServerUnaryReactor* AdminService::KillSession(Context* context, const pb::KillRequest* request,
                                                    pb::Outcome* reply) {
  return Change(context, reply, [this, text = request->id()]() -> Status {
    const std::optional<std::uint64_t> id = ParseId('s', text);
    if (!id || !shell_.HasSession(core::SessionId{*id})) return NoSuch("session", text);
    shell_.Run(core::KillSession{core::SessionId{*id}});
    return Status::Ok();
  });
}

grpc::ServerUnaryReactor* AdminService::PauseListener(Context* context,
                                                      const pb::PauseListenerRequest* request,
                                                      pb::Outcome* reply) {
  return Change(context, reply, [this, text = request->id(), pause = request->pause()]() -> Status {
    const std::optional<std::uint64_t> id = ParseId('l', text);
    const auto rows = shell_.core().Listeners();
    if (!id || std::none_of(rows.begin(), rows.end(), [&](const auto& row) { return row.id.value == *id; })) {
      return NoSuch("listener", text);
    }
    shell_.Run(core::PauseListener{{*id}, pause});
    return Status::Ok();
  });
}

grpc::ServerUnaryReactor* AdminService::Reload(Context* context, const pb::ReloadRequest*,
                                               pb::Outcome* reply) {
  Unary* reactor = context->DefaultReactor();
  worker_.Post([this, reactor, reply] {
    ToProto(options_.reload(), reply->mutable_status());
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SkipTime(Context* context, const pb::SkipTimeRequest* request,
                                                 pb::Outcome* reply) {
  Unary* reactor = context->DefaultReactor();
  loop_.Post([this, reactor, reply, milliseconds = request->milliseconds()] {
    constexpr Duration kMost = std::chrono::hours(24 * 365 * 50);
    Status outcome;
    if (options_.test_clock == nullptr) {
      outcome = {StatusCode::kNotSupported, "the broker was not started with --test-clock"};
    } else if (milliseconds > 1'000'000'000'000 ||
               skipped_ + std::chrono::milliseconds(milliseconds) > kMost) {
      outcome = {StatusCode::kInvalidParameter, "time can be skipped by fifty years in all"};
    } else {
      skipped_ += std::chrono::milliseconds(milliseconds);
      options_.test_clock->Skip(std::chrono::milliseconds(milliseconds));
    }
    ToProto(outcome, reply->mutable_status());
    // Answered after the timers that have become due: they run before what is posted now.
    loop_.Post([reactor] { reactor->Finish(grpc::Status::OK); });
  });
  return reactor;
}

}  // namespace nd::service
