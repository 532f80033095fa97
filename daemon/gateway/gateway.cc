// SPDX-License-Identifier: Apache-2.0
// One thread accepts, one for each connection shakes hands; after that the pipe's own thread and gRPC's do
// the work.
#include "daemon/gateway/gateway.h"

#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "base/locate.h"
#include "daemon/ops/logging.h"

namespace nd::gateway {
namespace {

Result<UniqueFd> Listen(const Address& at) {
  UniqueFd fd(::socket(at.family() == Address::Family::kIpv6 ? AF_INET6 : AF_INET,
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd)
    return Status(StatusCode::kInsufficientResources, std::string("no socket: ") + std::strerror(errno));
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_storage storage{};
  const auto size = static_cast<socklen_t>(at.ToSockaddr(&storage));
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0 || ::listen(fd.get(), 128) != 0) {
    const int error = errno;
    const StatusCode code = error == EADDRINUSE ? StatusCode::kSharingViolation
                            : error == EACCES   ? StatusCode::kAccessDenied
                                                : StatusCode::kInvalidAddress;
    return Status(code, "cannot listen on " + at.ToString() + ": " + std::strerror(error), Detail::kTransport,
                  error);
  }
  return fd;
}

Address LocalAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return Address::FromSockaddr(reinterpret_cast<sockaddr*>(&storage), size);
}

std::string Join(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
  return all.empty() ? "a certificate without a name" : all;
}

}  // namespace

Gateway::Gateway(const Options& options) : options_(options) {}

Gateway::~Gateway() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
  // A handshake in progress uses this object; each ends by its deadline.
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return open_ == 0; });
}

Result<std::unique_ptr<Gateway>> Gateway::Make(const Options& options) {
  std::unique_ptr<Gateway> gateway(new Gateway(options));
  Result<std::shared_ptr<tls::Context>> context = tls::Context::Make(tls::Side::kServer, options.identity);
  if (!context.ok()) return context.status();
  gateway->context_ = std::move(context.value());
  Result<UniqueFd> listener = Listen(options.listen);
  if (!listener.ok()) return listener.status();
  gateway->listener_ = std::move(listener.value());
  gateway->address_ = LocalAddress(gateway->listener_.get());
  gateway->stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!gateway->stop_) return Status(StatusCode::kInsufficientResources, std::strerror(errno));

  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);  // A broker that restarts is soon back.
  gateway->relay_ = std::make_unique<Relay>(
      grpc::CreateCustomChannel("unix:" + options.broker_directory + "/" + kAdminSocketName,
                                grpc::InsecureChannelCredentials(), arguments),
      [own = gateway.get()](const std::string& peer) { return own->CallerOf(peer); });
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(gateway->relay_.get());
  builder.SetMaxReceiveMessageSize(1024 * 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  gateway->server_ = builder.BuildAndStart();
  if (!gateway->server_) return Status(StatusCode::kUnsuccessful, "gRPC does not start");
  return gateway;
}

void Gateway::Run() {
  for (;;) {
    pollfd wait[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(wait, 2, -1) < 0 && errno != EINTR) return;
    if (wait[1].revents != 0) return;
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    UniqueFd socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&storage), &size, SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      // Out of descriptors: nothing is to be had by asking again at once.
      ops::LogWarning("accept failed", std::strerror(errno));
      pollfd stop{stop_.get(), POLLIN, 0};
      if (::poll(&stop, 1, 100) > 0) return;
      continue;
    }
    const std::string from = Address::FromSockaddr(reinterpret_cast<sockaddr*>(&storage), size).ToString();
    {
      const std::lock_guard lock(mutex_);
      if (open_ >= options_.connections) {
        ops::LogWarning("refused", from + ": " + std::to_string(open_) + " connections are open");
        continue;
      }
      ++open_;
    }
    std::thread([this, fd = std::move(socket), from]() mutable {
      Serve(std::move(fd), from);
      const std::lock_guard lock(mutex_);
      --open_;
      ended_.notify_all();  // Under the lock: whoever waits destroys this object next.
    }).detach();
  }
}

void Gateway::Stop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(stop_.get(), &one, sizeof one);
}

void Gateway::Serve(UniqueFd socket, const std::string& from) {
  Result<tls::Pipe> pipe = tls::Open(context_, std::move(socket), "", options_.handshake_timeout);
  if (!pipe.ok()) {
    ops::LogWarning("refused", from + ": " + pipe.status().ToString());
    return;
  }
  const Caller caller{RoleOf(options_.roles, pipe->names), Join(pipe->names)};
  if (caller.role == Role::kNone) {
    ops::LogWarning("refused", from + ": " + caller.name + " is neither in --admin nor in --view");
  } else {
    ops::LogInfo(from + ": " + caller.name +
                 (caller.role == Role::kViewer ? " may look" : " may administer"));
  }
  // gRPC owns one duplicate, this thread the other, until the connection is over: the count of open
  // connections and the entry of the caller live exactly as long as it does.
  const UniqueFd mine(::dup(pipe->plain.get()));
  const int fd = pipe->plain.release();
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);  // gRPC relies on it.
  {
    const std::lock_guard lock(mutex_);
    callers_[fd] = caller;
  }
  grpc::AddInsecureChannelFromFd(server_.get(), fd);
  pollfd wait{mine.get(), POLLRDHUP, 0};
  while (::poll(&wait, 1, 1000) == 0 || (wait.revents == 0 && errno == EINTR)) {
  }
}

Caller Gateway::CallerOf(const std::string& peer) const {
  constexpr std::string_view kPrefix = "fd:";
  if (!peer.starts_with(kPrefix)) return {};
  const std::lock_guard lock(mutex_);
  const auto found = callers_.find(std::atoi(peer.c_str() + kPrefix.size()));
  return found == callers_.end() ? Caller{} : found->second;
}

}  // namespace nd::gateway
