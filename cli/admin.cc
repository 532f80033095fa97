// SPDX-License-Identifier: Apache-2.0
// Connects by hand before gRPC sees the socket: only the errno of connect() tells "not running" from "not
// yours".
#include "cli/admin.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/locate.h"
#include "base/unique_fd.h"
#include "cli/version.h"

namespace nd::cli {

AdminClient::AdminClient(std::string directory, double timeout_seconds)
    : directory_(std::move(directory)),
      path_(directory_ + "/" + kAdminSocketName),
      timeout_seconds_(timeout_seconds) {}

AdminClient::AdminClient(Remote remote, double timeout_seconds)
    : directory_(remote.host), remote_(std::move(remote)), timeout_seconds_(timeout_seconds) {}

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
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) {
    return Error{Exit::kUsage,
                 "the path " + path_ + " is too long for a socket",
                 "at most " + std::to_string(sizeof(address.sun_path) - 1) + " bytes are possible",
                 {}};
  }
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return Error{Exit::kFailed, std::string("no socket: ") + std::strerror(errno), {}, {}};
  timeval timeout{};  // Of connect() itself: a broker that does not accept must not hang ndctl.
  timeout.tv_sec = static_cast<time_t>(timeout_seconds_);
  timeout.tv_usec = static_cast<suseconds_t>((timeout_seconds_ - static_cast<double>(timeout.tv_sec)) * 1e6);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
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
    return Unreachable(std::strerror(error));
  }
  *out = std::move(fd);
  return std::nullopt;
}

Failure AdminClient::Dial(UniqueFd* fd) const {
  return remote_ ? DialRemote(*remote_, timeout_seconds_, fd) : DialLocal(fd);
}

Failure AdminClient::Connect() {
  if (stub_ != nullptr) return std::nullopt;
  UniqueFd fd;
  if (Failure failure = Dial(&fd)) return failure;
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // A list of every connection has no upper limit.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  stub_ = ndbroker::v1::Admin::NewStub(
      grpc::CreateCustomInsecureChannelFromFd("ndbroker", fd.release(), arguments));
  return std::nullopt;
}

void AdminClient::SetDeadline(grpc::ClientContext* context) const {
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::microseconds(static_cast<long long>(timeout_seconds_ * 1e6)));
}

// Which of the two is older, only the broker can say.
Failure AdminClient::TooOld() {
  grpc::ClientContext context;
  SetDeadline(&context);
  ndbroker::v1::BrokerStatus broker;
  const bool known = stub_->GetStatus(&context, ndbroker::v1::GetStatusRequest(), &broker).ok();
  return Error{Exit::kFailed,
               "the broker does not know this request: it is version " +
                   (known ? broker.version() : std::string("unknown")) + ", ndctl is version " + kVersion,
               "install the same version of both and restart ndbrokerd",
               {}};
}

Failure AdminClient::FromGrpc(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return std::nullopt;
    case grpc::StatusCode::UNAVAILABLE:
      return Unreachable("the connection broke (" + status.error_message() + ")");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Error{Exit::kTimeout,
                   "the broker in " + directory_ + " did not answer in time",
                   "try a longer --timeout; if it stays so, the broker hangs",
                   {}};
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return Error{
          Exit::kPermission,
          "the broker does not permit this: " + status.error_message(),
          remote_ ? std::string() : "run ndctl as the broker's user or as a member of its admin group",
          {}};
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::INVALID_ARGUMENT:  // A text that cannot be an id names nothing.
      return Error{Exit::kNotFound, status.error_message(), {}, {}};
    case grpc::StatusCode::UNIMPLEMENTED:
      return TooOld();
    default:
      return Error{Exit::kFailed, "the broker failed: " + status.error_message(), {}, {}};
  }
}

}  // namespace nd::cli
