// SPDX-License-Identifier: Apache-2.0
// gRPC's own listener is good enough for a test's broker.
#include "cli/testing/fake_admin.h"

#include <cstdlib>
#include <filesystem>

namespace nd::cli {

namespace v1 = ndbroker::v1;

FakeAdmin::FakeAdmin() {
  char name[] = "/tmp/nd-fake-XXXXXX";
  directory_ = mkdtemp(name);
  status.set_version("9.9.9");
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + directory_ + "/admin.sock", grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeAdmin::~FakeAdmin() {
  server_->Shutdown(std::chrono::system_clock::now());
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

template <typename Reply>
grpc::Status FakeAdmin::Answer(const google::protobuf::Message& request, const std::optional<Reply>& with,
                               Reply* reply) {
  asked = request.ShortDebugString();
  if (!with) return {grpc::StatusCode::UNIMPLEMENTED, ""};
  *reply = *with;
  return grpc::Status::OK;
}

grpc::Status FakeAdmin::Change(const google::protobuf::Message& request, v1::Outcome* reply) {
  ++changes;
  return Answer(request, outcome, reply);
}

grpc::Status FakeAdmin::GetStatus(Context*, const v1::GetStatusRequest*, v1::BrokerStatus* reply) {
  *reply = status;
  return grpc::Status::OK;
}

grpc::Status FakeAdmin::ListConnections(Context*, const v1::ListRequest* request, v1::ConnectionList* reply) {
  if (before_list) before_list(++lists_);
  return Answer(*request, connections, reply);
}

grpc::Status FakeAdmin::ListQueuePairs(Context*, const v1::ListRequest* request, v1::QueuePairList* reply) {
  return Answer(*request, queue_pairs, reply);
}

grpc::Status FakeAdmin::ListMemoryRegions(Context*, const v1::ListRequest* request,
                                          v1::MemoryRegionList* reply) {
  return Answer(*request, memory_regions, reply);
}

grpc::Status FakeAdmin::GetPolicy(Context*, const v1::GetPolicyRequest* request, v1::PolicyReply* reply) {
  return Answer(*request, policy, reply);
}

grpc::Status FakeAdmin::CheckPolicy(Context*, const v1::CheckPolicyRequest* request,
                                    v1::CheckPolicyReply* reply) {
  return Answer(*request, policy_answer, reply);
}

grpc::Status FakeAdmin::GetConfig(Context*, const v1::GetConfigRequest* request, v1::ConfigReply* reply) {
  return Answer(*request, config, reply);
}

grpc::Status FakeAdmin::CheckConfig(Context*, const v1::CheckConfigRequest* request,
                                    v1::CheckConfigReply* reply) {
  return Answer(*request, config_answer, reply);
}

grpc::Status FakeAdmin::ListHistory(Context*, const v1::HistoryRequest* request, v1::HistoryList* reply) {
  return Answer(*request, history, reply);
}

grpc::Status FakeAdmin::GetStats(Context*, const v1::StatsRequest* request, v1::StatsReply* reply) {
  if (stats.empty()) return {grpc::StatusCode::UNIMPLEMENTED, ""};
  asked = request->ShortDebugString();
  *reply = stats[std::min(looks_++, stats.size() - 1)];
  return grpc::Status::OK;
}

grpc::Status FakeAdmin::Diagnose(Context*, const v1::DiagnoseRequest* request, v1::DiagnoseReply* reply) {
  return Answer(*request, diagnosis, reply);
}

grpc::Status FakeAdmin::GetLog(Context*, const v1::LogRequest* request, v1::LogReply* reply) {
  return Answer(*request, log, reply);
}

grpc::Status FakeAdmin::KillConnection(Context*, const v1::KillRequest* request, v1::Outcome* reply) {
  return Change(*request, reply);
}

grpc::Status FakeAdmin::ReservePort(Context*, const v1::ReservePortRequest* request, v1::Outcome* reply) {
  return Change(*request, reply);
}

grpc::Status FakeAdmin::ReleasePort(Context*, const v1::ReleasePortRequest* request, v1::Outcome* reply) {
  return Change(*request, reply);
}

grpc::Status FakeAdmin::Drain(Context*, const v1::DrainRequest* request, v1::Outcome* reply) {
  return Change(*request, reply);
}

grpc::Status FakeAdmin::Watch(Context* context, const v1::WatchRequest* request,
                              grpc::ServerWriter<v1::WatchEvent>* writer) {
  asked = request->ShortDebugString();
  for (const v1::WatchEvent& event : events) writer->Write(event);
  while (!request->past_only() && !context->IsCancelled()) {
    if (!writer->Write(events.empty() ? v1::WatchEvent() : events.back())) break;
  }
  return grpc::Status::OK;
}

}  // namespace nd::cli
