// SPDX-License-Identifier: Apache-2.0
// The client of the Admin service, on DIR/admin.sock or through the gateway of another host.
//
// Each call has a deadline. The errors for a missing broker, a broker that does not answer and missing
// permission differ, and name the path that was tried. One function for each call of the service
// (proto/ndbroker/v1/admin.proto); only admin.cc and admin_channel include gRPC. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/error.h"
#include "cli/remote.h"

namespace ndbroker::v1 {
class AdapterList;
class BrokerStatus;
class CheckConfigReply;
class CheckConfigRequest;
class CheckPolicyReply;
class CheckPolicyRequest;
class ConfigReply;
class ConnectionList;
class DiagnoseReply;
class DiagnoseRequest;
class DrainRequest;
class EndpointList;
class GetConfigRequest;
class GetPolicyRequest;
class GetStatusRequest;
class HistoryList;
class HistoryRequest;
class KillRequest;
class ListRequest;
class ListenerList;
class LogReply;
class LogRequest;
class MemoryRegionList;
class Outcome;
class PauseListenerRequest;
class PolicyReply;
class PortList;
class QueuePairList;
class ReleasePortRequest;
class ReloadRequest;
class ReservePortRequest;
class SessionList;
class SetAdapterRequest;
class SkipTimeRequest;
class StatsReply;
class StatsRequest;
class WatchEvent;
class WatchRequest;
}  // namespace ndbroker::v1

namespace nd::cli {

namespace v1 = ndbroker::v1;

class AdminClient {
 public:
  AdminClient(std::string directory, double timeout_seconds);
  // For the broker of another host, through that host's gateway.
  AdminClient(Remote remote, double timeout_seconds);
  ~AdminClient();

  // Fails with UNREACHABLE, PERMISSION_DENIED, or a usage error for a path that is too long for a socket.
  // Every other call connects first if necessary.
  Failure Connect();

  Failure GetStatus(const v1::GetStatusRequest& request, v1::BrokerStatus* reply);
  Failure ListAdapters(const v1::ListRequest& request, v1::AdapterList* reply);
  Failure ListListeners(const v1::ListRequest& request, v1::ListenerList* reply);
  Failure ListConnections(const v1::ListRequest& request, v1::ConnectionList* reply);
  Failure ListEndpoints(const v1::ListRequest& request, v1::EndpointList* reply);
  Failure ListPorts(const v1::ListRequest& request, v1::PortList* reply);
  Failure ListSessions(const v1::ListRequest& request, v1::SessionList* reply);
  Failure ListQueuePairs(const v1::ListRequest& request, v1::QueuePairList* reply);
  Failure ListMemoryRegions(const v1::ListRequest& request, v1::MemoryRegionList* reply);
  Failure ListHistory(const v1::HistoryRequest& request, v1::HistoryList* reply);
  Failure SetAdapter(const v1::SetAdapterRequest& request, v1::Outcome* reply);
  Failure KillConnection(const v1::KillRequest& request, v1::Outcome* reply);
  Failure KillSession(const v1::KillRequest& request, v1::Outcome* reply);
  Failure PauseListener(const v1::PauseListenerRequest& request, v1::Outcome* reply);
  Failure ReservePort(const v1::ReservePortRequest& request, v1::Outcome* reply);
  Failure ReleasePort(const v1::ReleasePortRequest& request, v1::Outcome* reply);
  Failure Reload(const v1::ReloadRequest& request, v1::Outcome* reply);
  Failure Drain(const v1::DrainRequest& request, v1::Outcome* reply);
  Failure SkipTime(const v1::SkipTimeRequest& request, v1::Outcome* reply);
  Failure GetPolicy(const v1::GetPolicyRequest& request, v1::PolicyReply* reply);
  Failure CheckPolicy(const v1::CheckPolicyRequest& request, v1::CheckPolicyReply* reply);
  Failure GetConfig(const v1::GetConfigRequest& request, v1::ConfigReply* reply);
  Failure CheckConfig(const v1::CheckConfigRequest& request, v1::CheckConfigReply* reply);
  Failure GetStats(const v1::StatsRequest& request, v1::StatsReply* reply);
  Failure Diagnose(const v1::DiagnoseRequest& request, v1::DiagnoseReply* reply);
  Failure GetLog(const v1::LogRequest& request, v1::LogReply* reply);

  // Passes each event to `take` until `take` returns false or the broker ends the stream; both are success.
  // `seconds` bounds the whole call.
  Failure Watch(const v1::WatchRequest& request, std::optional<double> seconds,
                const std::function<bool(const v1::WatchEvent&)>& take);

  const std::string& directory() const { return directory_; }
  static std::string GrpcVersion();

 private:
  struct Line;  // The stub.

  template <typename Method, typename Request, typename Reply>
  Failure Call(Method method, const Request& request, Reply* reply);
  Failure Unreachable(const std::string& why) const;
  // `code` is a grpc::StatusCode.
  Failure CallFailure(int code, const std::string& message);
  Failure TooOld();
  Failure Dial(UniqueFd* fd) const;
  Failure DialLocal(UniqueFd* fd) const;

  std::string directory_;
  std::string path_;
  std::optional<Remote> remote_;
  double timeout_seconds_;
  std::unique_ptr<Line> line_;
};

}  // namespace nd::cli
