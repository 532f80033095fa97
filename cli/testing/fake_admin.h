// SPDX-License-Identifier: Apache-2.0
// A broker for tests of ndctl alone: answers on DIR/admin.sock with what the test put into it.
//
// Requests without a set reply are UNIMPLEMENTED, as by an older broker. Replies are set before ndctl is
// started; the recorded requests are read after it ended.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::cli {

class FakeAdmin final : public ndbroker::v1::Admin::Service {
 public:
  FakeAdmin();
  ~FakeAdmin() override;

  const std::string& directory() const { return directory_; }

  ndbroker::v1::BrokerStatus status;
  std::optional<ndbroker::v1::ConnectionList> connections;
  std::optional<ndbroker::v1::QueuePairList> queue_pairs;
  std::optional<ndbroker::v1::MemoryRegionList> memory_regions;
  std::optional<ndbroker::v1::PolicyReply> policy;
  std::optional<ndbroker::v1::CheckPolicyReply> policy_answer;
  std::optional<ndbroker::v1::ConfigReply> config;
  std::optional<ndbroker::v1::CheckConfigReply> config_answer;
  std::optional<ndbroker::v1::HistoryList> history;
  std::vector<ndbroker::v1::StatsReply> stats;  // The replies in order; the last one repeats.
  std::optional<ndbroker::v1::DiagnoseReply> diagnosis;
  std::optional<ndbroker::v1::LogReply> log;
  std::optional<ndbroker::v1::Outcome> outcome;  // Of every change.
  std::vector<ndbroker::v1::WatchEvent> events;
  std::function<void(int call)> before_list;  // Before each list of connections.

  // The last request in text form.
  std::string asked;
  std::atomic<int> changes = 0;

 private:
  using Context = grpc::ServerContext;
  template <typename Reply>
  grpc::Status Answer(const google::protobuf::Message& request, const std::optional<Reply>& with,
                      Reply* reply);
  grpc::Status Change(const google::protobuf::Message& request, ndbroker::v1::Outcome* reply);

  grpc::Status GetStatus(Context*, const ndbroker::v1::GetStatusRequest*,
                         ndbroker::v1::BrokerStatus*) override;
  grpc::Status ListConnections(Context*, const ndbroker::v1::ListRequest*,
                               ndbroker::v1::ConnectionList*) override;
  grpc::Status ListQueuePairs(Context*, const ndbroker::v1::ListRequest*,
                              ndbroker::v1::QueuePairList*) override;
  grpc::Status ListMemoryRegions(Context*, const ndbroker::v1::ListRequest*,
                                 ndbroker::v1::MemoryRegionList*) override;
  grpc::Status GetPolicy(Context*, const ndbroker::v1::GetPolicyRequest*,
                         ndbroker::v1::PolicyReply*) override;
  grpc::Status CheckPolicy(Context*, const ndbroker::v1::CheckPolicyRequest*,
                           ndbroker::v1::CheckPolicyReply*) override;
  grpc::Status GetConfig(Context*, const ndbroker::v1::GetConfigRequest*,
                         ndbroker::v1::ConfigReply*) override;
  grpc::Status CheckConfig(Context*, const ndbroker::v1::CheckConfigRequest*,
                           ndbroker::v1::CheckConfigReply*) override;
  grpc::Status ListHistory(Context*, const ndbroker::v1::HistoryRequest*,
                           ndbroker::v1::HistoryList*) override;
  grpc::Status GetStats(Context*, const ndbroker::v1::StatsRequest*, ndbroker::v1::StatsReply*) override;
  grpc::Status Diagnose(Context*, const ndbroker::v1::DiagnoseRequest*,
                        ndbroker::v1::DiagnoseReply*) override;
  grpc::Status GetLog(Context*, const ndbroker::v1::LogRequest*, ndbroker::v1::LogReply*) override;
  grpc::Status KillConnection(Context*, const ndbroker::v1::KillRequest*, ndbroker::v1::Outcome*) override;
  grpc::Status ReservePort(Context*, const ndbroker::v1::ReservePortRequest*,
                           ndbroker::v1::Outcome*) override;
  grpc::Status ReleasePort(Context*, const ndbroker::v1::ReleasePortRequest*,
                           ndbroker::v1::Outcome*) override;
  grpc::Status Drain(Context*, const ndbroker::v1::DrainRequest*, ndbroker::v1::Outcome*) override;
  grpc::Status Watch(Context*, const ndbroker::v1::WatchRequest*,
                     grpc::ServerWriter<ndbroker::v1::WatchEvent>*) override;

  std::string directory_;
  std::size_t looks_ = 0;
  int lists_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace nd::cli
