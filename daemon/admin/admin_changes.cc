// SPDX-License-Identifier: Apache-2.0
// The calls of Admin that change a running broker, and Watch.
#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/admin/admin_service.h"
#include "daemon/ops/logging.h"
#include "daemon/service/outbox.h"
#include "daemon/shell/id_text.h"

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

  void Own(std::shared_ptr<WatchStream> self) { self_ = std::move(self); }
  // Loop thread.
  void Start(const std::shared_ptr<WatchStream>& self, std::optional<WallTime> since, bool past_only) {
    if (!Pin()) return;
    StartSendInitialMetadata();  // Signals to the reader that it misses no event from now on.
    Unpin();
    past_room_ = WatchHub::kRemembered;
    hub_.Add(self, since, past_only);
    past_room_ = 0;
    // A stream that broke in between called Remove() before it was added.
    if (ending()) hub_.Remove(this);
  }

  void Offer(const WatchedEvent& event, std::uint64_t lost) override {
    pb::WatchEvent message;
    message.set_time(TimeText(event.time));
    message.set_type(event.type);
    message.set_object(event.object);
    message.set_message(event.message);
    message.set_lost(lost + lost_);
    switch (Enqueue(std::move(message), 1, bound_ + past_room_)) {
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
  void PastIsOver() override { FinishAfterQueue(grpc::Status::OK); }
  void OnDone() override {
    const std::shared_ptr<WatchStream> self = std::move(self_);
    hub_.Remove(this);
  }

 private:
  WatchHub& hub_;
  const std::size_t bound_;
  std::size_t past_room_ = 0;          // Loop thread. Remembered events are queued as a whole.
  std::uint64_t lost_ = 0;             // Loop thread.
  std::shared_ptr<WatchStream> self_;  // Until OnDone.
};

}  // namespace

grpc::ServerWriteReactor<pb::WatchEvent>* AdminService::Watch(Context* context,
                                                              const pb::WatchRequest* request) {
  auto stream = std::make_shared<WatchStream>(context, hub_, options_.watch_queue_events);
  stream->Own(stream);
  std::optional<WallTime> since;
  if (!request->since().empty()) since = ParseTime(request->since());
  if (!request->since().empty() && !since) {
    stream->FinishAfterQueue(
        {grpc::StatusCode::INVALID_ARGUMENT, "\"" + ops::Printable(request->since(), 64) +
                                                 "\" is no time; expected one like 2026-02-03T04:05:06Z"});
  } else if (request->past_only() && !since) {
    stream->FinishAfterQueue(
        {grpc::StatusCode::INVALID_ARGUMENT, "past_only without a time selects nothing; give since as well"});
  } else {
    loop_.Post(
        [stream, since, past_only = request->past_only()] { stream->Start(stream, since, past_only); });
  }
  return stream.get();
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
  return Change(
      context, reply,
      Audited(context, request->enabled() ? "admin.adapter-enable" : "admin.adapter-disable", request->name(),
              [this, name = request->name(), enabled = request->enabled()]() -> Status {
                std::string known;
                bool found = false;
                for (const core::AdapterRow& row : shell_.core().Adapters()) {
                  found |= row.description.info.name == name;
                  known += (known.empty() ? "" : ", ") + row.description.info.name;
                }
                if (!found) {
                  return {StatusCode::kInvalidParameter,
                          "there is no adapter \"" + name + "\"; adapters: " + known};
                }
                shell_.Run(core::SetAdapter{name, enabled});
                return Status::Ok();
              }));
}

grpc::ServerUnaryReactor* AdminService::KillConnection(Context* context, const pb::KillRequest* request,
                                                       pb::Outcome* reply) {
  return Change(
      context, reply,
      Audited(context, "admin.connection-kill", request->id(), [this, text = request->id()]() -> Status {
        const std::optional<std::uint64_t> id = ParseId('c', text);
        const auto rows = shell_.core().Connections();
        if (!id ||
            std::none_of(rows.begin(), rows.end(), [&](const auto& row) { return row.id.value == *id; })) {
          return NoSuch("connection", text);
        }
        shell_.Run(core::KillConnection{{*id}});
        return Status::Ok();
      }));
}

grpc::ServerUnaryReactor* AdminService::KillSession(Context* context, const pb::KillRequest* request,
                                                    pb::Outcome* reply) {
  return Change(
      context, reply,
      Audited(context, "admin.session-kill", request->id(), [this, text = request->id()]() -> Status {
        const std::optional<std::uint64_t> id = ParseId('s', text);
        if (!id || !shell_.HasSession(core::SessionId{*id})) return NoSuch("session", text);
        shell_.Run(core::KillSession{core::SessionId{*id}});
        return Status::Ok();
      }));
}

grpc::ServerUnaryReactor* AdminService::PauseListener(Context* context,
                                                      const pb::PauseListenerRequest* request,
                                                      pb::Outcome* reply) {
  return Change(context, reply,
                Audited(context, request->pause() ? "admin.listener-pause" : "admin.listener-resume",
                        request->id(), [this, text = request->id(), pause = request->pause()]() -> Status {
                          const std::optional<std::uint64_t> id = ParseId('l', text);
                          const auto rows = shell_.core().Listeners();
                          if (!id || std::none_of(rows.begin(), rows.end(),
                                                  [&](const auto& row) { return row.id.value == *id; })) {
                            return NoSuch("listener", text);
                          }
                          shell_.Run(core::PauseListener{{*id}, pause});
                          return Status::Ok();
                        }));
}

grpc::ServerUnaryReactor* AdminService::ReservePort(Context* context, const pb::ReservePortRequest* request,
                                                    pb::Outcome* reply) {
  constexpr std::size_t kLongestComment = 256;
  const Address local = FromProto(request->local());
  if (!local.well_formed() || local.port() == 0) {
    return BadRequest(context,
                      "a reservation needs an IPv4 or IPv6 address with a port, such as 10.0.0.1:7000");
  }
  if (request->comment().size() > kLongestComment) {
    return BadRequest(context, "the comment has " + std::to_string(request->comment().size()) +
                                   " bytes; it may have " + std::to_string(kLongestComment));
  }
  std::optional<std::uint32_t> uid;
  if (request->has_uid()) uid = request->uid();
  Unary* reactor = context->DefaultReactor();
  loop_.Post([this, reactor, reply, local, uid, comment = ops::Printable(request->comment()),
              audit = Auditor(context, "admin.port-reserve", local.ToString())] {
    if (const Status unkept = ReserveAudit(); !unkept.ok()) {
      ToProto(unkept, reply->mutable_status());
      reactor->Finish(grpc::Status::OK);
      return;
    }
    // In the host port mode another program may hold the port, so the outcome can come later.
    shell_.Reserve({local, uid, comment}, [reactor, reply, audit](const Status& outcome) {
      audit(outcome);
      ToProto(outcome, reply->mutable_status());
      reactor->Finish(grpc::Status::OK);
    });
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ReleasePort(Context* context, const pb::ReleasePortRequest* request,
                                                    pb::Outcome* reply) {
  const Address local = FromProto(request->local());
  if (!local.well_formed() || local.port() == 0) {
    return BadRequest(context,
                      "a reservation has an IPv4 or IPv6 address with a port, such as 10.0.0.1:7000");
  }
  return Change(context, reply,
                Audited(context, "admin.port-release", local.ToString(), [this, local]() -> Status {
                  if (Status wrong = shell_.core().CheckRelease(local); !wrong.ok()) return wrong;
                  shell_.Run(core::ReleasePort{local});
                  return Status::Ok();
                }));
}

grpc::ServerUnaryReactor* AdminService::Drain(Context* context, const pb::DrainRequest* request,
                                              pb::Outcome* reply) {
  return Change(context, reply,
                Audited(context, request->drain() ? "admin.drain" : "admin.resume", "",
                        [this, drain = request->drain()]() -> Status {
                          shell_.Run(core::SetDraining{drain});
                          return Status::Ok();
                        }));
}

grpc::ServerUnaryReactor* AdminService::Reload(Context* context, const pb::ReloadRequest*,
                                               pb::Outcome* reply) {
  Unary* reactor = context->DefaultReactor();
  worker_.Post([reactor, reply, reload = Audited(context, "admin.reload", "", options_.reload)] {
    ToProto(reload(), reply->mutable_status());
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
      outcome = {StatusCode::kInvalidParameter, "time can be skipped by at most fifty years in total"};
    } else {
      skipped_ += std::chrono::milliseconds(milliseconds);
      options_.test_clock->Skip(std::chrono::milliseconds(milliseconds));
    }
    ToProto(outcome, reply->mutable_status());
    // The reply follows the timers that have become due: they run before a function posted now.
    loop_.Post([reactor] { reactor->Finish(grpc::Status::OK); });
  });
  return reactor;
}

}  // namespace nd::service
