// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/late_services.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/locate.h"
#include "daemon/admin/admin_service.h"
#include "daemon/metrics/http_service.h"
#include "daemon/ops/logging.h"
#include "daemon/server/grpc_connection.h"
#include "daemon/server/grpc_server.h"
#include "daemon/server/refusal_service.h"
#include "daemon/service/control_connections.h"
#include "daemon/service/guarded_streams.h"
#include "daemon/shell/session_service.h"

namespace nd::service {
namespace {

constexpr int kMaxAdminMessage = 4 * 1024 * 1024;  // Room for a whole configuration file.

constexpr const char* kForeignAdmin =
    "the caller is not in the broker's pid, network and user namespaces, so it may not administer the "
    "broker; "
    "call from where ndbrokerd runs, or set admin-namespaces = \"any\" in [broker]";

// Returns the number of descriptors that unproven clients and unfinished handshakes may hold at once, two for
// the lane of a client and four for its gRPC connection.
std::uint64_t DescriptorsWanted(const Config& config) {
  std::uint64_t wanted = std::uint64_t{6} * config.limits.unauthenticated + config.limits.admin_connections +
                         config.core.max_handshakes_in_flight;
  for (const auto& provider : config.providers) wanted += provider->handshake_descriptors();
  return wanted;
}

class GrpcServices final : public LateServices {
 public:
  GrpcServices(const ServicesHost& host, Records& records) : host_(host), records_(records) {}

  Status Start(Sockets sockets) override;
  void Proven(std::uint64_t cookie) override {
    if (clients_ != nullptr) clients_->Proven(cookie);
  }
  void StopFirst() override {
    if (http_ != nullptr) http_->Stop();
  }
  void StopLast() override;
  void EndStreams() override;

 private:
  Status StartServers();
  void StartPages(UniqueFd metrics);
  // The rest is called on the loop.
  void Accept(UniqueFd admin, UniqueFd broker);
  // Returns true, logs and counts when this peer of an administrative socket must not be served.
  bool RefusesForeign(const char* socket_name, int fd, const Peer& peer) const;
  // Returns the end for gRPC of the connection of an administrator: the socket itself, or, as a pipe of
  // Windows has messages, one end of a pair that the relay serves. Empty: no descriptors are left.
  UniqueFd StreamOf(UniqueFd fd, const Peer& peer);
  // Logs a warning when the broker has no usable adapter.
  void WarnUnlessReady() const;

  const ServicesHost& host_;
  Records& records_;
  // A thread of its own: encoding long lists takes long.
  Worker snapshots_{"nd-snapshots"};
  std::unique_ptr<HttpService> http_;
  std::unique_ptr<GuardedStreams> guard_, relay_;  // The relay exists once it has a connection.
  std::unique_ptr<SessionService> session_service_;
  std::unique_ptr<AdminService> admin_service_;
  RefusalService refusal_service_{kForeignAdmin};
  std::unique_ptr<grpc::Server> broker_server_, admin_server_, refusal_server_;
  std::unique_ptr<ControlConnections> clients_, admins_, foreign_admins_;
};

bool GrpcServices::RefusesForeign(const char* socket_name, int fd, const Peer& peer) const {
  if (host_.options.config.broker.allow_foreign_admins) return false;
  const UniqueFd process = ProcessHandle(fd, peer.pid);
  const ForeignNamespaces foreign = ForeignNamespacesOf(peer, process.get());
  if (!foreign.any()) return false;
  ops::LogWarning("connection refused", std::string(socket_name) + ": uid " + std::to_string(peer.uid) +
                                            " (pid " + std::to_string(peer.pid) + ") is in another " +
                                            foreign.ToString() + " namespace (admin-namespaces of [broker])");
  return true;
}

UniqueFd GrpcServices::StreamOf(UniqueFd fd, const Peer& peer) {
  if (os::KindOf(fd.get()) == os::SocketKind::kStream) return fd;
  if (relay_ == nullptr) relay_ = std::make_unique<GuardedStreams>(GuardedStreams::Options{.limits = false});
  UniqueFd stream = relay_->Guard(std::move(fd), peer);
  if (!stream) host_.shell.doors()[kAdminSocketName].Refuse(ops::Refusal::kDescriptors);
  return stream;
}

Status GrpcServices::Start(Sockets sockets) {
  host_.pulse.Join("snapshots",
                   [this](std::function<void()> question) { snapshots_.Post(std::move(question)); });
  if (Status status = StartServers(); !status.ok()) return status;
  if (sockets.metrics) StartPages(std::move(sockets.metrics));
  host_.on_loop([&] { Accept(std::move(sockets.admin), std::move(sockets.broker)); });
  return Status::Ok();
}

Status GrpcServices::StartServers() {
  const Config& config = host_.options.config;
  guard_ = std::make_unique<GuardedStreams>(GuardedStreams::Options{
      .streams_per_uid = {512, 256}, .on_flood = [this](const Peer& peer, std::string_view why) {
        ops::LogWarning("connection ended", std::string(kBrokerSocketName) + ": uid " +
                                                std::to_string(peer.uid) + " (pid " +
                                                std::to_string(peer.pid) + "): " + std::string(why));
        host_.loop.Post([this] { host_.shell.doors()[kBrokerSocketName].Refuse(ops::Refusal::kFlood); });
      }});
  session_service_ = std::make_unique<SessionService>(
      host_.loop, host_.shell,
      SessionService::Options{config.limits.session_queue_bytes, host_.options.version,
                              host_.options.directory + "/" + kPodsDirectoryName,
                              [this](std::string_view peer) { return guard_->PeerOfCall(peer); }});
  AdminService::Options admin;
  admin.version = host_.options.version;
  admin.config_file = config.file;
  admin.directory = host_.options.directory;
  admin.grpc = config.broker.grpc;
  admin.descriptors_wanted = DescriptorsWanted(config);
  admin.configuration.settings = host_.settings;
  admin.configuration.needs_restart = host_.needs_restart;
  admin.configuration.parse =
      host_.options.parse != nullptr
          ? host_.options.parse
          : [](const std::string& text, const std::string& file) { return ParseConfig(text, file); };
  admin.configuration.load = host_.options.load;
  admin.boot_epoch = host_.boot_epoch;
  admin.started = host_.started;
  admin.watch_queue_events = config.limits.watch_queue_events;
  admin.reload = host_.reload;
  admin.test_clock = host_.options.test_clock ? &host_.clock : nullptr;
  admin.observatory = &records_.observatory();
  admin.history = records_.history();
  admin.history_reader = &records_.history_reader();
  admin_service_ =
      std::make_unique<AdminService>(host_.loop, snapshots_, host_.hub, host_.shell, std::move(admin));
  broker_server_ = BuildGrpcServer(session_service_.get(), "broker", config.limits.grpc_memory_bytes,
                                   static_cast<int>(provider::kMaxClientMessage), nullptr);
  admin_server_ = BuildGrpcServer(admin_service_.get(), "admin", config.limits.grpc_memory_bytes,
                                  kMaxAdminMessage, &records_.admin_tally());
  refusal_server_ = refusal_service_.Start();
  if (broker_server_ == nullptr || admin_server_ == nullptr || refusal_server_ == nullptr) {
    return {StatusCode::kUnsuccessful, "gRPC did not start"};
  }
  broker_server_->GetHealthCheckService()->SetServingStatus("ndbroker.v1.Broker", true);
  admin_server_->GetHealthCheckService()->SetServingStatus("ndbroker.v1.Admin", true);
  return Status::Ok();
}

void GrpcServices::StartPages(UniqueFd metrics) {
  // Metrics show the count before the first refusal.
  host_.on_loop([this] { host_.shell.doors().try_emplace(kMetricsSocketName); });
  const Server::Options& options = host_.options;
  http_ = std::make_unique<HttpService>(
      host_.loop, records_.observatory(), host_.shell, host_.hub, host_.pulse,
      HttpService::Options{
          options.config.metrics, options.version, options.directory, host_.started, [this](int fd) {
            // On the thread of the responder; the doors belong to the loop.
            const std::optional<Peer> peer = PeerOf(fd);
            if (peer && !RefusesForeign(kMetricsSocketName, fd, *peer)) return std::string();
            const auto why = peer ? ops::Refusal::kForeignNamespace : ops::Refusal::kCredentials;
            host_.loop.Post([this, why] { host_.shell.doors()[kMetricsSocketName].Refuse(why); });
            return std::string(kForeignAdmin);
          }});
  http_->Start(std::move(metrics));
  http_->Join(host_.pulse);
}

void GrpcServices::Accept(UniqueFd admin, UniqueFd broker) {
  const ServiceLimits& limits = host_.options.config.limits;
  clients_ = std::make_unique<ControlConnections>(
      host_.loop, kBrokerSocketName, host_.shell.doors()[kBrokerSocketName],
      Gate::Limits{limits.unauthenticated, limits.unauthenticated_per_uid, limits.connections_per_uid},
      limits.hello_timeout, [this](UniqueFd fd, const Peer& peer) {
        if (UniqueFd inner = guard_->Guard(std::move(fd), peer)) {
          ServeConnection(*broker_server_, std::move(inner));
        } else {
          host_.shell.doors()[kBrokerSocketName].Refuse(ops::Refusal::kDescriptors);
        }
      });
  admins_ = std::make_unique<ControlConnections>(
      host_.loop, kAdminSocketName, host_.shell.doors()[kAdminSocketName],
      Gate::Limits{limits.admin_connections, limits.admin_connections, limits.admin_connections},
      Duration::zero(), [this](UniqueFd fd, const Peer& peer) {
        if (UniqueFd stream = StreamOf(std::move(fd), peer))
          ServeConnection(*admin_server_, std::move(stream));
      });

  // Connections that only receive a refusal. They cannot take the places of others.
  foreign_admins_ = std::make_unique<ControlConnections>(
      host_.loop, kAdminSocketName, host_.shell.doors()[kAdminSocketName], Gate::Limits{16, 16, 16, 0},
      Duration::zero(), [this](UniqueFd fd, const Peer& peer) {
        if (UniqueFd stream = StreamOf(std::move(fd), peer))
          ServeConnection(*refusal_server_, std::move(stream));
      });
  if (broker) {
    host_.accept(kBrokerSocketName, std::move(broker),
                 [this](UniqueFd fd, const Peer& peer) { clients_->Offer(std::move(fd), peer); });
  }
  host_.accept(kAdminSocketName, std::move(admin),
               [this, &door = host_.shell.doors()[kAdminSocketName]](UniqueFd fd, const Peer& peer) {
                 const bool refused = RefusesForeign(kAdminSocketName, fd.get(), peer);
                 if (refused) door.Refuse(ops::Refusal::kForeignNamespace);
                 (refused ? foreign_admins_ : admins_)->Offer(std::move(fd), peer);
               });
  WarnUnlessReady();
}

void GrpcServices::WarnUnlessReady() const {
  Picture picture;
  picture.adapters = host_.shell.core().Adapters();
  const std::string why_not = picture.NotReady();
  if (why_not.empty()) return;
  ops::LogWarning("not ready", why_not +
                                   " Look at \"addresses\" of [[adapter]] and at ip address; a service needs "
                                   "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK");
}

void GrpcServices::StopLast() {
  const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(250);
  if (broker_server_ != nullptr) broker_server_->Shutdown(deadline);
  if (admin_server_ != nullptr) admin_server_->Shutdown(deadline);
  if (refusal_server_ != nullptr) refusal_server_->Shutdown(deadline);
}

void GrpcServices::EndStreams() {
  clients_.reset();
  admins_.reset();
  foreign_admins_.reset();
  broker_server_.reset();
  admin_server_.reset();
  refusal_server_.reset();
  guard_.reset();
  relay_.reset();
  http_.reset();
  session_service_.reset();
  admin_service_.reset();
}

}  // namespace

Result<std::unique_ptr<LateServices>> MakeLateServices(const ServicesHost& host, Records& records) {
  return std::unique_ptr<LateServices>(std::make_unique<GrpcServices>(host, records));
}

}  // namespace nd::service
