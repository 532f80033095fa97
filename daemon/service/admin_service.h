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
#include "daemon/service/arena_messages.h"
#include "daemon/service/broker_shell.h"
#include "daemon/service/observatory.h"
#include "daemon/state/history.h"
#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::service {

class AdminService final : public pb::Admin::CallbackService {
 public:
  // What the server knows of its configuration; each may take its time, so on the worker.
  struct Configuration {
    std::function<std::vector<Setting>()> settings;  // In force.
    std::function<std::string(const Config&)> needs_restart;
    std::function<Result<Config>(const std::string& text, const std::string& file)> parse;
    std::function<Result<Config>()> load;  // Null: there is no file.
  };
  struct Options {
    std::string version, config_file, directory;
    std::uint64_t descriptors_wanted = 0;  // By the limits of the configuration, at most.
    Configuration configuration;
    std::uint32_t boot_epoch = 0;
    std::size_t watch_queue_events = 1024;
    std::function<Status()> reload;       // On the worker; may take its time.
    SkippingClock* test_clock = nullptr;  // Null: SkipTime is NOT_SUPPORTED.
    Observatory* observatory = nullptr;   // For GetStats.
    state::History* history = nullptr;    // Null: ListHistory is FAILED_PRECONDITION.
    Worker* history_reader = nullptr;     // Where the history's file is read, which may take its time.
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
  // Runs `take` on the loop and what it returns on the worker, then answers.
  Unary* Snapshot(Context* context, std::function<std::function<void()>()> take);
  // Ends the call with INVALID_ARGUMENT.
  static Unary* BadRequest(Context* context, const std::string& why);
  // Runs `change` on the loop and answers with its outcome.
  Unary* Change(Context* context, pb::Outcome* reply, std::function<Status()> change);

  // `change`, told of to everybody who watches and kept in the history: who asked for what, and what came of
  // it. `type`: "admin.connection-kill".
  std::function<Status()> Audited(Context* context, std::string type, const std::string& object,
                                  std::function<Status()> change);
  // What tells it, for a change whose outcome comes later.
  std::function<void(const Status&)> Auditor(Context* context, std::string type, const std::string& object);

  EventLoop& loop_;
  Worker& worker_;
  WatchHub& hub_;
  BrokerShell& shell_;
  const Options options_;
  const Time started_;
  Duration skipped_{};  // Loop thread.
  ArenaMessages<pb::ListRequest, pb::ConnectionList> connection_memory_;
  ArenaMessages<pb::ListRequest, pb::QueuePairList> queue_pair_memory_;
};

}  // namespace nd::service
