// SPDX-License-Identifier: Apache-2.0
// All services: gRPC for sessions and administration, the history, metrics.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/locate.h"
#include "daemon/admin/admin_service.h"
#include "daemon/metrics/admin_tally.h"
#include "daemon/metrics/http_service.h"
#include "daemon/metrics/observatory.h"
#include "daemon/ops/logging.h"
#include "daemon/server/grpc_connection.h"
#include "daemon/server/grpc_server.h"
#include "daemon/server/refusal_service.h"
#include "daemon/server/services.h"
#include "daemon/service/control_connections.h"
#include "daemon/service/guarded_streams.h"
#include "daemon/shell/history_sink.h"
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

class GrpcServices final : public Services {
 public:
  explicit GrpcServices(ServicesHost host) : host_(std::move(host)) {}

  std::vector<os::InheritedSockets::Wanted> Sockets() const override;
  Status Prepare() override;
  Status Listen() override;
  void Accept() override;
  void Proven(std::uint64_t cookie) override { clients_->Proven(cookie); }
  void StopFirst() override {
    if (http_ != nullptr) http_->Stop();
  }
  void StopLast() override;
  void EndStreams() override;

 private:
  // Returns true, logs and counts when this peer of an administrative socket must not be served.
  bool RefusesForeign(const char* socket_name, int fd, const Peer& peer) const;
  // Returns the end for gRPC of the connection of an administrator: the socket itself, or, as a pipe of
  // Windows has messages, one end of a pair that the relay serves. Empty: no descriptors are left. Loop
  // thread.
  UniqueFd StreamOf(UniqueFd fd, const Peer& peer);
  void StartHistory();
  // Logs a warning when the broker has no usable adapter. Before the loop runs.
  void WarnUnlessReady() const;

  const ServicesHost host_;
  // Separate threads for separate kinds of waiting: encoding long lists, a disk.
  Worker snapshots_{"nd-snapshots"};
  AdminTally admin_tally_;
  std::unique_ptr<state::History> history_;
  std::unique_ptr<HistorySink> history_sink_;
  Worker history_reader_{"nd-history-read"};
  std::unique_ptr<Observatory> observatory_;
  std::unique_ptr<HttpService> http_;
  std::unique_ptr<GuardedStreams> guard_, relay_;  // The relay exists once it has a connection.
  std::unique_ptr<SessionService> session_service_;
  std::unique_ptr<AdminService> admin_service_;
  RefusalService refusal_service_{kForeignAdmin};
  std::unique_ptr<grpc::Server> broker_server_, admin_server_, refusal_server_;
  std::unique_ptr<ControlConnections> clients_, admins_, foreign_admins_;
  UniqueFd admin_fd_, broker_fd_;  // From Listen() to Accept().
};

std::vector<os::InheritedSockets::Wanted> GrpcServices::Sockets() const {
  std::vector<os::InheritedSockets::Wanted> wanted = {
      {ClientSocketPath(host_.options.directory, kBrokerSocketName), os::SocketKind::kStream}};
  for (const char* name : {kAdminSocketName, kMetricsSocketName}) {
    wanted.push_back({host_.options.directory + "/" + name, os::SocketKind::kStream});
  }
  return wanted;
}

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

void GrpcServices::StartHistory() {
  const HistorySettings& settings = host_.options.config.history;
  if (!settings.enabled) return;
  state::History::Options options;
  options.file = HistoryFile(settings, host_.options.directory);
  options.keep = std::chrono::hours(24) * settings.keep_days;
  options.max_rows = settings.max_rows;
  options.tell = [this](bool good, const std::string& line) {
    good ? ops::LogInfo(line) : ops::LogWarning("history", line);
    host_.loop.Post(
        [this, good, line] { host_.hub.Publish(good ? "history.resumed" : "history.trouble", "", line); });
  };
  history_ = std::make_unique<state::History>(std::move(options));
  history_sink_ = std::make_unique<HistorySink>(host_.clock, *history_);
  host_.shell.AddRecordSink(history_sink_.get());
  // Opens its descriptors now and not later; a hanging disk delays the start by at most a second.
  history_->AwaitOpen(std::chrono::seconds(1));
}

Status GrpcServices::Prepare() {
  const Config& config = host_.options.config;
  StartHistory();
  host_.pulse.Join("snapshots",
                   [this](std::function<void()> question) { snapshots_.Post(std::move(question)); });
  if (history_ != nullptr) {
    // A disk may be slow; only requests for the history wait for it.
    host_.pulse.Join(
        "history", [this](std::function<void()> question) { history_->Post(std::move(question)); }, 30);
  }
  observatory_ = std::make_unique<Observatory>(host_.loop, host_.shell, history_.get(), admin_tally_);
  host_.shell.AddRecordSink(observatory_.get());

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
  admin.watch_queue_events = config.limits.watch_queue_events;
  admin.reload = host_.reload;
  admin.test_clock = host_.options.test_clock ? &host_.clock : nullptr;
  admin.observatory = observatory_.get();
  admin.history = history_.get();
  admin.history_reader = &history_reader_;
  admin_service_ =
      std::make_unique<AdminService>(host_.loop, snapshots_, host_.hub, host_.shell, std::move(admin));
  broker_server_ = BuildGrpcServer(session_service_.get(), "broker", config.limits.grpc_memory_bytes,
                                   static_cast<int>(provider::kMaxClientMessage), nullptr);
  admin_server_ = BuildGrpcServer(admin_service_.get(), "admin", config.limits.grpc_memory_bytes,
                                  kMaxAdminMessage, &admin_tally_);
  refusal_server_ = refusal_service_.Start();
  if (broker_server_ == nullptr || admin_server_ == nullptr || refusal_server_ == nullptr) {
    return {StatusCode::kUnsuccessful, "gRPC did not start"};
  }
  broker_server_->GetHealthCheckService()->SetServingStatus("ndbroker.v1.Broker", true);
  admin_server_->GetHealthCheckService()->SetServingStatus("ndbroker.v1.Admin", true);

  const ServiceLimits& limits = config.limits;
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

  return Status::Ok();
}

Status GrpcServices::Listen() {
  const Config& config = host_.options.config;
  const BrokerSettings& broker = config.broker;
  const auto admin_path = [this](const char* name) { return host_.options.directory + "/" + name; };
  const auto client_path = [this](const char* name) {
    return ClientSocketPath(host_.options.directory, name);
  };
  if (Status s = host_.listen(admin_path(kAdminSocketName), os::SocketKind::kStream, broker.admin_mode,
                              broker.admin_group, &admin_fd_);
      !s.ok()) {
    return s;
  }
  if (config.metrics.enabled) {
    host_.shell.doors().try_emplace(kMetricsSocketName);  // Metrics show the count before the first refusal.
    UniqueFd metrics_fd;
    if (Status s = host_.listen(admin_path(kMetricsSocketName), os::SocketKind::kStream, broker.admin_mode,
                                broker.admin_group, &metrics_fd);
        !s.ok()) {
      return s;
    }
    http_ = std::make_unique<HttpService>(
        host_.loop, *observatory_, host_.shell, host_.hub, host_.pulse,
        HttpService::Options{
            config.metrics, host_.options.version, host_.options.directory, [this](int fd) {
              // On the thread of the responder; the doors belong to the loop.
              const std::optional<Peer> peer = PeerOf(fd);
              if (peer && !RefusesForeign(kMetricsSocketName, fd, *peer)) return std::string();
              const auto why = peer ? ops::Refusal::kForeignNamespace : ops::Refusal::kCredentials;
              host_.loop.Post([this, why] { host_.shell.doors()[kMetricsSocketName].Refuse(why); });
              return std::string(kForeignAdmin);
            }});
    http_->Start(std::move(metrics_fd));
    http_->Join(host_.pulse);
  }
  if (broker.grpc) {
    if (Status s = host_.listen(client_path(kBrokerSocketName), os::SocketKind::kStream, broker.client_mode,
                                broker.client_group, &broker_fd_);
        !s.ok()) {
      return s;
    }
  }
  return Status::Ok();
}

void GrpcServices::Accept() {
  if (broker_fd_) {
    host_.accept(kBrokerSocketName, std::move(broker_fd_),
                 [this](UniqueFd fd, const Peer& peer) { clients_->Offer(std::move(fd), peer); });
  }
  host_.accept(kAdminSocketName, std::move(admin_fd_),
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

std::unique_ptr<Services> MakeServices(ServicesHost host) {
  return std::make_unique<GrpcServices>(std::move(host));
}

}  // namespace nd::service
