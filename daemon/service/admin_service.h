// SPDX-License-Identifier: Apache-2.0
// gRPC's side of Admin: snapshots are taken on the loop, turned into messages on the worker.
//
// Who may call is decided by the permissions of the admin socket. Any thread. A malformed id is
// INVALID_ARGUMENT; an id that names nothing gives an empty list, or INVALID_HANDLE as the outcome.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/event_loop.h"
#include "daemon/service/broker_shell.h"
#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::service {

class AdminService final : public pb::Admin::CallbackService {
 public:
  struct Options {
    std::string version, config_file;
    std::uint32_t boot_epoch = 0;
    std::size_t watch_queue_events = 1024;
    std::function<Status()> reload;       // On the worker; may take its time.
    SkippingClock* test_clock = nullptr;  // Null: SkipTime is NOT_SUPPORTED.
  };
  AdminService(EventLoop& loop, Worker& worker, WatchHub& hub, BrokerShell& shell, Options options);

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* GetStatus(Context* context, const pb::GetStatusRequest*, pb::BrokerStatus* reply) override;
  Unary* ListAdapters(Context* context, const pb::ListRequest* request, pb::AdapterList* reply) override;
  Unary* ListListeners(Context* context, const pb::ListRequest* request, pb::ListenerList* reply) override;
  Unary* ListConnections(Context* context, const pb::ListRequest* request,
                         pb::ConnectionList* reply) override;
  Unary* ListEndpoints(Context* context, const pb::ListRequest* request, pb::EndpointList* reply) override;
  Unary* ListPorts(Context* context, const pb::ListRequest* request, pb::PortList* reply) override;
  Unary* ListSessions(Context* context, const pb::ListRequest* request, pb::SessionList* reply) override;
  grpc::ServerWriteReactor<pb::WatchEvent>* Watch(Context* context, const pb::WatchRequest*) override;
  Unary* SetAdapter(Context* context, const pb::SetAdapterRequest* request, pb::Outcome* reply) override;
  Unary* KillConnection(Context* context, const pb::KillRequest* request, pb::Outcome* reply) override;
  Unary* KillSession(Context* context, const pb::KillRequest* request, pb::Outcome* reply) override;
  Unary* PauseListener(Context* context, const pb::PauseListenerRequest* request,
                       pb::Outcome* reply) override;
  Unary* Reload(Context* context, const pb::ReloadRequest*, pb::Outcome* reply) override;
  Unary* SkipTime(Context* context, const pb::SkipTimeRequest* request, pb::Outcome* reply) override;

 private:
  // Runs `take` on the loop and what it returns on the worker, then answers.
  Unary* Snapshot(Context* context, std::function<std::function<void()>()> take);
  // Runs `change` on the loop and answers with its outcome.
  Unary* Change(Context* context, pb::Outcome* reply, std::function<Status()> change);

  EventLoop& loop_;
  Worker& worker_;
  WatchHub& hub_;
  BrokerShell& shell_;
  const Options options_;
  const Time started_;
  Duration skipped_{};  // Loop thread.
};

}  // namespace nd::service
