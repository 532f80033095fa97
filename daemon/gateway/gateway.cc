// SPDX-License-Identifier: Apache-2.0
// One thread accepts connections, and one thread for each connection runs the handshake; afterwards the
// threads of the pipe and of gRPC do the work.
#include "daemon/gateway/gateway.h"

#include <grpcpp/server_posix.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/locate.h"
#include "base/os/accept.h"
#include "base/os/descriptor.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "daemon/ops/logging.h"

namespace nd::gateway {
namespace {

Result<UniqueFd> Listen(const Address& at) {
  UniqueFd fd = os::ListenTcp(at, 128);
  if (!fd) {
    const int error = errno;
    const StatusCode code = error == EADDRINUSE ? StatusCode::kSharingViolation
                            : error == EACCES   ? StatusCode::kAccessDenied
                                                : StatusCode::kInvalidAddress;
    return Status(code, "cannot listen on " + at.ToString() + ": " + std::strerror(error), Detail::kTransport,
                  error);
  }
  return fd;
}

std::string Join(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
  return all.empty() ? "a certificate without a name" : all;
}

}  // namespace

Gateway::Gateway(const Options& options)
    : options_(options), slots_(options.connections, options.connections) {}

Gateway::~Gateway() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
  // Their threads use this object.
  std::unique_lock lock(mutex_);
  for (const auto& [id, connection] : connections_) HangUp(id);
  ended_.wait(lock, [this] { return connections_.empty(); });
}

std::uint32_t Gateway::open() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint32_t>(connections_.size());
}

Result<std::unique_ptr<Gateway>> Gateway::Make(const Options& options) {
  std::unique_ptr<Gateway> gateway(new Gateway(options));
  Result<std::shared_ptr<tls::Context>> context = tls::Context::Make(tls::Side::kServer, options.identity);
  if (!context.ok()) return context.status();
  gateway->context_ = std::move(context.value());
  Result<UniqueFd> listener = Listen(options.listen);
  if (!listener.ok()) return listener.status();
  gateway->listener_ = std::move(listener.value());
  gateway->address_ = os::LocalAddress(gateway->listener_.get());
  if (!gateway->stop_) return Status(StatusCode::kInsufficientResources, std::strerror(errno));

  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);  // A restarted broker is found soon.
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
    os::Watched wait[] = {{listener_.get()}, {stop_.handle()}};
    if (os::Wait(wait, os::kNoLimit) < 0 && errno != EINTR) return;
    if (wait[1].ready != 0) return;
    os::Accepted accepted = os::Accept(listener_.get());
    if (accepted.result == os::Accepted::Result::kNone) continue;
    if (!accepted.fd) {
      // Out of descriptors: a retry at once would fail, too.
      ops::LogWarning("accept failed", std::strerror(accepted.error));
      os::Watched stop[] = {{stop_.handle()}};
      if (os::Wait(stop, std::chrono::milliseconds(100)) > 0) return;
      continue;
    }
    UniqueFd socket = std::move(accepted.fd);
    const std::string from = os::PeerAddress(socket.get()).ToString();
    const Id id = ++last_;
    if (!Admit(id, socket.get(), from)) continue;
    try {
      std::thread([this, id, fd = std::move(socket), from]() mutable {
        Serve(id, std::move(fd), from);
        Leave(id);
      }).detach();
    } catch (const std::system_error& error) {
      ops::LogWarning("refused", from + ": no thread for it: " + error.what());
      Leave(id);
    }
  }
}

bool Gateway::Admit(Id id, int fd, const std::string& from) {
  std::unique_lock lock(mutex_);
  // Evicted connections need a moment to end.
  ended_.wait(lock, [this] { return connections_.size() < 2 * options_.connections; });
  const ops::SourceSlots::Entry entry = slots_.Enter(id, ops::SourceOf(fd));
  if (!entry.admitted) {
    ops::LogWarning("refused", from + ": " + std::to_string(slots_.size()) + " connections are open");
    return false;
  }
  if (entry.evicted) {
    ops::LogWarning("refused", from +
                                   " came when every place was taken; a connection that had not shown "
                                   "a right to its place was ended");
    HangUp(*entry.evicted);
  }
  connections_[id].fd = fd;
  return true;
}

void Gateway::HangUp(Id id) {
  const int fd = connections_.at(id).fd;
  if (fd >= 0) os::ShutDown(fd, os::Direction::kBoth);
}

void Gateway::Leave(Id id) {
  const std::lock_guard lock(mutex_);
  slots_.Leave(id);
  connections_.erase(id);
  ended_.notify_all();  // Under the lock, because the waiting thread destroys this object next.
}

void Gateway::Stop() {
  stop_.Set();
}

// From the handshake on the pipe owns the network socket and may close it at any moment. The socket for
// HangUp() is therefore a duplicate that this thread owns.
void Gateway::Serve(Id id, UniqueFd socket, const std::string& from) {
  UniqueFd mine = os::Duplicate(socket.get());
  const auto hold = [this, id](int fd) {
    const std::lock_guard lock(mutex_);
    connections_.at(id).fd = fd;
  };
  const auto out_of_descriptors = [&from] {
    ops::LogWarning("refused", from + ": no descriptor is left for it: " + std::strerror(errno));
  };
  hold(mine.get());
  if (!mine) return out_of_descriptors();
  Result<tls::Pipe> pipe = tls::Open(context_, std::move(socket), "", options_.handshake_timeout);
  hold(-1);
  if (!pipe.ok()) {
    ops::LogWarning("refused", from + ": " + pipe.status().ToString());
    return;
  }
  const Caller caller{RoleOf(options_.roles, pipe->names), Join(pipe->names)};
  // gRPC owns the end of the pipe, and this thread a duplicate, until the connection ends. The slot of the
  // connection and the entry of the caller live exactly as long.
  mine = os::Duplicate(pipe->plain.get());
  if (!mine) return out_of_descriptors();
  const std::uint64_t cookie = os::SocketNumber(mine.get());
  {
    const std::lock_guard lock(mutex_);
    connections_.at(id) = {mine.get(), cookie, caller};
    // A client without rights only gets the refusal and holds no slot against others. A client that was
    // evicted meanwhile has no slot.
    if (!slots_.Has(id)) return;
    if (caller.role != Role::kNone && !slots_.Serve(id)) {
      ops::LogWarning("refused", from + ": " + caller.name + " has three quarters of all connections");
      connections_.at(id).fd = -1;
      return;
    }
  }
  if (caller.role == Role::kNone) {
    ops::LogWarning("refused", from + ": " + caller.name + " is neither in --admin nor in --view");
  } else {
    ops::LogInfo(from + ": " + caller.name +
                 (caller.role == Role::kViewer ? " may look" : " may administer"));
  }
  os::SetNonBlocking(pipe->plain.get());  // Required by gRPC.
  grpc::AddInsecureChannelFromFd(server_.get(), pipe->plain.release());
  os::Watched wait[] = {{mine.get(), os::kPeerFinished}};
  while (os::Wait(wait, os::kNoLimit) < 0 && errno == EINTR) {
  }
  hold(-1);
}

Caller Gateway::CallerOf(const std::string& peer) const {
  constexpr std::string_view kPrefix = "fd:";
  if (!peer.starts_with(kPrefix)) return {};
  const std::uint64_t cookie = os::SocketNumber(std::atoi(peer.c_str() + kPrefix.size()));
  if (cookie == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      connections_, [cookie](const auto& entry) { return entry.second.cookie == cookie; });
  return found == connections_.end() ? Caller{} : found->second.caller;
}

}  // namespace nd::gateway
