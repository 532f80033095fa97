// SPDX-License-Identifier: Apache-2.0
// Connects before gRPC gets the socket, because only the errno of connect() distinguishes a missing broker
// from missing permission. Besides admin_channel, the only file of ndctl that includes gRPC.
#include "cli/admin.h"

#include <grpcpp/grpcpp.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/locate.h"
#include "base/os/error_text.h"
#include "base/os/socket.h"
#include "base/unique_fd.h"
#include "cli/admin_channel.h"
#include "cli/version.h"
#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::cli {

namespace {

using Stub = v1::Admin::Stub;

std::chrono::microseconds Microseconds(double seconds) {
  return std::chrono::microseconds(static_cast<long long>(seconds * 1e6));
}

void SetDeadline(grpc::ClientContext* context, double seconds) {
  context->set_deadline(std::chrono::system_clock::now() + Microseconds(seconds));
}

}  // namespace

struct AdminClient::Line {
  explicit Line(UniqueFd connection) : channel(std::move(connection)) {}

  AdminChannel channel;
  std::unique_ptr<Stub> stub;
};

AdminClient::AdminClient(std::string directory, double timeout_seconds)
    : directory_(std::move(directory)),
      path_(directory_ + "/" + kAdminSocketName),
      timeout_seconds_(timeout_seconds) {}

AdminClient::AdminClient(Remote remote, double timeout_seconds)
    : directory_(remote.host), remote_(std::move(remote)), timeout_seconds_(timeout_seconds) {}

AdminClient::~AdminClient() = default;

Failure AdminClient::Unreachable(const std::string& why) const {
  if (remote_) {
    return Error{Exit::kUnreachable,
                 "no broker answers on " + remote_->host + ": " + why,
                 "ndbrokerd and ndbroker-gateway must both run there",
                 {}};
  }
  return Error{Exit::kUnreachable,
               "no broker answers in " + directory_ + ": " + why,
               "start ndbrokerd, or name the directory of its sockets with --address DIR or $NDBROKER_DIR",
               {}};
}

Failure AdminClient::DialLocal(UniqueFd* out) const {
  if (path_.size() > os::LongestSocketPath()) {
    return Error{Exit::kUsage,
                 "the path " + path_ + " is too long for a socket",
                 "at most " + std::to_string(os::LongestSocketPath()) + " bytes are possible",
                 {}};
  }
  UniqueFd fd = os::ConnectLocal(path_, os::SocketKind::kStream, Microseconds(timeout_seconds_));
  if (!fd) {
    const int error = errno;
    if (error == EMFILE || error == ENFILE) {
      return Error{Exit::kFailed, std::string("no socket: ") + os::ErrorText(error), {}, {}};
    }
    if (error == EACCES || error == EPERM) {
      return Error{Exit::kPermission,
                   "no permission to use " + path_,
                   "run ndctl as the broker's user or as a member of its admin group",
                   {}};
    }
    if (error == ENOENT) return Unreachable(std::string(kAdminSocketName) + " does not exist");
    if (error == ECONNREFUSED) return Unreachable("its socket is left over from a broker that ended");
    if (error == EAGAIN || error == EINPROGRESS) {
      return Error{Exit::kTimeout, "the broker in " + directory_ + " does not accept connections", {}, {}};
    }
    return Unreachable(os::ErrorText(error));
  }
  *out = std::move(fd);
  return std::nullopt;
}

Failure AdminClient::Dial(UniqueFd* fd) const {
  return remote_ ? DialRemote(*remote_, timeout_seconds_, fd) : DialLocal(fd);
}

Failure AdminClient::Connect() {
  if (line_ != nullptr) return std::nullopt;
  UniqueFd fd;
  if (Failure failure = Dial(&fd)) return failure;
  auto line = std::make_unique<Line>(std::move(fd));
  if (line->channel.get() == nullptr) {
    return Error{Exit::kFailed, std::string("no channel to the broker: ") + os::ErrorText(errno), {}, {}};
  }
  line->stub = v1::Admin::NewStub(line->channel.get());
  line_ = std::move(line);
  return std::nullopt;
}

// Only the broker can tell which of the two is older.
Failure AdminClient::TooOld() {
  grpc::ClientContext context;
  SetDeadline(&context, timeout_seconds_);
  v1::BrokerStatus broker;
  const bool known = line_->stub->GetStatus(&context, v1::GetStatusRequest(), &broker).ok();
  return Error{Exit::kFailed,
               "the broker does not know this request: it is version " +
                   (known ? broker.version() : std::string("unknown")) + ", ndctl is version " + kVersion,
               "install the same version of both and restart ndbrokerd",
               {}};
}

Failure AdminClient::CallFailure(int code, const std::string& message) {
  switch (static_cast<grpc::StatusCode>(code)) {
    case grpc::StatusCode::OK:
      return std::nullopt;
    case grpc::StatusCode::UNAVAILABLE:
      return Unreachable("the connection broke (" + message + ")");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Error{Exit::kTimeout,
                   "the broker in " + directory_ + " did not answer in time",
                   "try a longer --timeout; if it stays so, the broker hangs",
                   {}};
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      // The message of the broker or the gateway says what to do.
      return Error{Exit::kPermission, "the broker does not permit this: " + message, {}, {}};
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::INVALID_ARGUMENT:  // A malformed id names no object.
      return Error{Exit::kNotFound, message, {}, {}};
    case grpc::StatusCode::UNIMPLEMENTED:
      return TooOld();
    default:
      return Error{Exit::kFailed, "the broker failed: " + message, {}, {}};
  }
}

template <typename Method, typename Request, typename Reply>
Failure AdminClient::Call(Method method, const Request& request, Reply* reply) {
  if (Failure failure = Connect()) return failure;
  grpc::ClientContext context;
  SetDeadline(&context, timeout_seconds_);
  const grpc::Status status = (line_->stub.get()->*method)(&context, request, reply);
  return CallFailure(status.error_code(), status.error_message());
}

Failure AdminClient::Watch(const v1::WatchRequest& request, std::optional<double> seconds,
                           const std::function<bool(const v1::WatchEvent&)>& take) {
  if (Failure failure = Connect()) return failure;
  grpc::ClientContext context;
  if (seconds) SetDeadline(&context, *seconds);
  const auto reader = line_->stub->Watch(&context, request);
  bool wanted = true;
  for (v1::WatchEvent event; reader->Read(&event);) {
    if (!wanted || take(event)) continue;
    wanted = false;
    context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  if (!wanted) return std::nullopt;  // This side cancelled the call.
  return CallFailure(status.error_code(), status.error_message());
}

std::string AdminClient::GrpcVersion() {
  return grpc::Version();
}

Failure AdminClient::GetStatus(const v1::GetStatusRequest& request, v1::BrokerStatus* reply) {
  return Call(&Stub::GetStatus, request, reply);
}

Failure AdminClient::ListAdapters(const v1::ListRequest& request, v1::AdapterList* reply) {
  return Call(&Stub::ListAdapters, request, reply);
}

Failure AdminClient::ListListeners(const v1::ListRequest& request, v1::ListenerList* reply) {
  return Call(&Stub::ListListeners, request, reply);
}

Failure AdminClient::ListConnections(const v1::ListRequest& request, v1::ConnectionList* reply) {
  return Call(&Stub::ListConnections, request, reply);
}

Failure AdminClient::ListEndpoints(const v1::ListRequest& request, v1::EndpointList* reply) {
  return Call(&Stub::ListEndpoints, request, reply);
}

Failure AdminClient::ListPorts(const v1::ListRequest& request, v1::PortList* reply) {
  return Call(&Stub::ListPorts, request, reply);
}

Failure AdminClient::ListSessions(const v1::ListRequest& request, v1::SessionList* reply) {
  return Call(&Stub::ListSessions, request, reply);
}

Failure AdminClient::ListQueuePairs(const v1::ListRequest& request, v1::QueuePairList* reply) {
  return Call(&Stub::ListQueuePairs, request, reply);
}

Failure AdminClient::ListMemoryRegions(const v1::ListRequest& request, v1::MemoryRegionList* reply) {
  return Call(&Stub::ListMemoryRegions, request, reply);
}

Failure AdminClient::ListHistory(const v1::HistoryRequest& request, v1::HistoryList* reply) {
  return Call(&Stub::ListHistory, request, reply);
}

Failure AdminClient::SetAdapter(const v1::SetAdapterRequest& request, v1::Outcome* reply) {
  return Call(&Stub::SetAdapter, request, reply);
}

Failure AdminClient::KillConnection(const v1::KillRequest& request, v1::Outcome* reply) {
  return Call(&Stub::KillConnection, request, reply);
}

Failure AdminClient::KillSession(const v1::KillRequest& request, v1::Outcome* reply) {
  return Call(&Stub::KillSession, request, reply);
}

Failure AdminClient::PauseListener(const v1::PauseListenerRequest& request, v1::Outcome* reply) {
  return Call(&Stub::PauseListener, request, reply);
}

Failure AdminClient::ReservePort(const v1::ReservePortRequest& request, v1::Outcome* reply) {
  return Call(&Stub::ReservePort, request, reply);
}

Failure AdminClient::ReleasePort(const v1::ReleasePortRequest& request, v1::Outcome* reply) {
  return Call(&Stub::ReleasePort, request, reply);
}

Failure AdminClient::Reload(const v1::ReloadRequest& request, v1::Outcome* reply) {
  return Call(&Stub::Reload, request, reply);
}

Failure AdminClient::Drain(const v1::DrainRequest& request, v1::Outcome* reply) {
  return Call(&Stub::Drain, request, reply);
}

Failure AdminClient::SkipTime(const v1::SkipTimeRequest& request, v1::Outcome* reply) {
  return Call(&Stub::SkipTime, request, reply);
}

Failure AdminClient::GetPolicy(const v1::GetPolicyRequest& request, v1::PolicyReply* reply) {
  return Call(&Stub::GetPolicy, request, reply);
}

Failure AdminClient::CheckPolicy(const v1::CheckPolicyRequest& request, v1::CheckPolicyReply* reply) {
  return Call(&Stub::CheckPolicy, request, reply);
}

Failure AdminClient::GetConfig(const v1::GetConfigRequest& request, v1::ConfigReply* reply) {
  return Call(&Stub::GetConfig, request, reply);
}

Failure AdminClient::CheckConfig(const v1::CheckConfigRequest& request, v1::CheckConfigReply* reply) {
  return Call(&Stub::CheckConfig, request, reply);
}

Failure AdminClient::GetStats(const v1::StatsRequest& request, v1::StatsReply* reply) {
  return Call(&Stub::GetStats, request, reply);
}

Failure AdminClient::Diagnose(const v1::DiagnoseRequest& request, v1::DiagnoseReply* reply) {
  return Call(&Stub::Diagnose, request, reply);
}

Failure AdminClient::GetLog(const v1::LogRequest& request, v1::LogReply* reply) {
  return Call(&Stub::GetLog, request, reply);
}

}  // namespace nd::cli
