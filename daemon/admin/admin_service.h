// SPDX-License-Identifier: Apache-2.0
// The gRPC service Admin. Snapshots are taken on the loop and converted to messages on the worker.
//
// The permissions of the admin socket decide who may call. Any thread. A malformed id is INVALID_ARGUMENT. An
// id without an object gives an empty list, or the outcome INVALID_HANDLE.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/event_loop.h"
#include "daemon/admin/arena_messages.h"
#include "daemon/metrics/observatory.h"
#include "daemon/service/convert.h"
#include "daemon/shell/broker_shell.h"
#include "daemon/state/history.h"
#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::service {

class AdminService final : public pb::Admin::CallbackService {
 public:
  // Access to the configuration of the server. Each function may block, so they run on the worker.
  struct Configuration {
    std::function<std::vector<Setting>()> settings;  // The settings in force.
    std::function<std::string(const Config&)> needs_restart;
    std::function<Result<Config>(const std::string& text, const std::string& file)> parse;
    std::function<Result<Config>()> load;  // Null when there is no file.
  };
  struct Options {
    std::string version, config_file, directory;
    bool grpc = true;                      // gRPC is served to applications.
    std::uint64_t descriptors_wanted = 0;  // The maximum that the configured limits allow.
    Configuration configuration;
    std::uint32_t boot_epoch = 0;
    Time started{};  // By the loop's clock.
    std::size_t watch_queue_events = 1024;
    std::function<Status()> reload;       // Runs on the worker and may block.
    SkippingClock* test_clock = nullptr;  // Null: SkipTime fails with NOT_SUPPORTED.
    Observatory* observatory = nullptr;   // The source of GetStats.
    state::History* history = nullptr;    // Null: ListHistory fails with FAILED_PRECONDITION.
    Worker* history_reader = nullptr;     // The thread that reads the file of the history, which may block.
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
  grpc::ServerWriteReactor<pb::WatchEvent>* Watch(Context* context, const pb::WatchRequest* request) override;
  Unary* SetAdapter(Context* context, const pb::SetAdapterRequest* request, pb::Outcome* reply) override;
  Unary* KillConnection(Context* context, const pb::KillRequest* request, pb::Outcome* reply) override;
  Unary* KillSession(Context* context, const pb::KillRequest* request, pb::Outcome* reply) override;
  Unary* PauseListener(Context* context, const pb::PauseListenerRequest* request,
                       pb::Outcome* reply) override;
  Unary* ListQueuePairs(Context* context, const pb::ListRequest* request, pb::QueuePairList* reply) override;
  Unary* ListMemoryRegions(Context* context, const pb::ListRequest* request,
                           pb::MemoryRegionList* reply) override;
  Unary* ReservePort(Context* context, const pb::ReservePortRequest* request, pb::Outcome* reply) override;
  Unary* ReleasePort(Context* context, const pb::ReleasePortRequest* request, pb::Outcome* reply) override;
  Unary* Drain(Context* context, const pb::DrainRequest* request, pb::Outcome* reply) override;
  Unary* GetPolicy(Context* context, const pb::GetPolicyRequest*, pb::PolicyReply* reply) override;
  Unary* CheckPolicy(Context* context, const pb::CheckPolicyRequest* request,
                     pb::CheckPolicyReply* reply) override;
  Unary* GetConfig(Context* context, const pb::GetConfigRequest*, pb::ConfigReply* reply) override;
  Unary* CheckConfig(Context* context, const pb::CheckConfigRequest* request,
                     pb::CheckConfigReply* reply) override;
  Unary* Diagnose(Context* context, const pb::DiagnoseRequest*, pb::DiagnoseReply* reply) override;
  Unary* GetLog(Context* context, const pb::LogRequest* request, pb::LogReply* reply) override;
  Unary* Reload(Context* context, const pb::ReloadRequest*, pb::Outcome* reply) override;
  Unary* ListHistory(Context* context, const pb::HistoryRequest* request, pb::HistoryList* reply) override;
  Unary* GetStats(Context* context, const pb::StatsRequest* request, pb::StatsReply* reply) override;
  Unary* SkipTime(Context* context, const pb::SkipTimeRequest* request, pb::Outcome* reply) override;

 private:
  // Runs `take` on the loop and its result on the worker, then finishes the call.
  Unary* Snapshot(Context* context, std::function<std::function<void()>()> take);
  // Ends the call with INVALID_ARGUMENT.
  static Unary* BadRequest(Context* context, const std::string& why);
  // Runs `change` on the loop and replies with its outcome.
  Unary* Change(Context* context, pb::Outcome* reply, std::function<Status()> change);

  // Returns `change` with an audit: its caller, object and outcome are published to the watchers and kept in
  // the history. A change that cannot be recorded is not made. `type`: "admin.connection-kill".
  std::function<Status()> Audited(Context* context, std::string type, const std::string& object,
                                  std::function<Status()> change);
  // Reserves a row in the history before a change; SUCCESS without a history. INSUFFICIENT_RESOURCES.
  Status ReserveAudit();
  // Returns a function that records a change once, when its outcome comes later. Call after ReserveAudit().
  std::function<void(const Status&)> Auditor(Context* context, std::string type, const std::string& object);

  EventLoop& loop_;
  Worker& worker_;
  WatchHub& hub_;
  BrokerShell& shell_;
  const Options options_;
  Duration skipped_{};  // Loop thread.
  ArenaMessages<pb::ListRequest, pb::ConnectionList> connection_memory_;
  ArenaMessages<pb::ListRequest, pb::QueuePairList> queue_pair_memory_;
};

}  // namespace nd::service
