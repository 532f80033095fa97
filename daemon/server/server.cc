// SPDX-License-Identifier: Apache-2.0
// The order of start and stop. Every other file of the folder only knows its own part.
#include "daemon/server/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/locate.h"
#include "base/os/file.h"
#include "base/os/inherited_sockets.h"
#include "base/os/thread.h"
#include "daemon/admin/admin_service.h"
#include "daemon/metrics/admin_tally.h"
#include "daemon/metrics/http_service.h"
#include "daemon/metrics/observatory.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/ops/pulse.h"
#include "daemon/server/grpc_server.h"
#include "daemon/server/refusal_service.h"
#include "daemon/server/runtime_dir.h"
#include "daemon/service/acceptor.h"
#include "daemon/service/control_connections.h"
#include "daemon/service/guarded_streams.h"
#include "daemon/service/reaper.h"
#include "daemon/service/worker.h"
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

}  // namespace

class Server::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)), loop_(clock_) {}
  ~Impl() { Stop(); }

  Status Start();
  Status Reload();

 private:
  Status TakeInheritedSockets();
  Status Listen(const std::string& path, os::SocketKind kind, std::uint32_t mode,
                std::optional<std::uint32_t> group, UniqueFd* out);
  // Returns true, logs and counts when this peer of an administrative socket must not be served.
  bool RefusesForeign(const char* socket_name, int fd, const Peer& peer) const;
  void StartHistory();
  void StartPulse();
  // Logs a warning when the broker has no usable adapter. Before the loop runs.
  void WarnUnlessReady() const;
  std::vector<Setting> Settings();
  void Stop();
  // Peers that connect from now on wait for the next broker, if it inherits the sockets. Waits a tenth of a
  // second at most for the handshakes in progress.
  void LeaveListeners();
  void StopAccepting();

  Options options_;
  UniqueFd lock_;
  os::InheritedSockets inherited_;
  bool activated_ = false;  // Some sockets were inherited.
  SkippingClock clock_;     // Skips only when the test clock was requested.
  EventLoop loop_;
  // Separate threads for separate kinds of waiting, so that none delays another: reading /proc for a new
  // client, encoding long lists, closing sockets that block.
  Worker hello_{"nd-hello"};
  Worker snapshots_{"nd-snapshots"};
  Reaper reaper_;
  WatchHub hub_;
  AdminTally admin_tally_;
  std::unique_ptr<state::History> history_;
  std::unique_ptr<HistorySink> history_sink_;
  Worker history_reader_{"nd-history-read"};
  std::unique_ptr<Observatory> observatory_;
  std::vector<std::string> bound_;
  std::unique_ptr<BrokerShell> shell_;
  std::unique_ptr<ops::Pulse> pulse_;
  std::unique_ptr<HttpService> http_;
  std::unique_ptr<GuardedStreams> guard_;
  std::unique_ptr<SessionService> session_service_;
  std::unique_ptr<AdminService> admin_service_;
  RefusalService refusal_service_{kForeignAdmin};
  std::unique_ptr<grpc::Server> broker_server_, admin_server_, refusal_server_;
  std::unique_ptr<ControlConnections> clients_, admins_, foreign_admins_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::thread thread_;
  std::mutex reload_mutex_;
};

bool Server::Impl::RefusesForeign(const char* socket_name, int fd, const Peer& peer) const {
  if (options_.config.broker.allow_foreign_admins) return false;
  const UniqueFd process = ProcessHandle(fd, peer.pid);
  const ForeignNamespaces foreign = ForeignNamespacesOf(peer, process.get());
  if (!foreign.any()) return false;
  ops::LogWarning("connection refused", std::string(socket_name) + ": uid " + std::to_string(peer.uid) +
                                            " (pid " + std::to_string(peer.pid) + ") is in another " +
                                            foreign.ToString() + " namespace (admin-namespaces of [broker])");
  return true;
}

Status Server::Impl::TakeInheritedSockets() {
  std::vector<os::InheritedSockets::Wanted> wanted;
  for (const auto& [name, kind] : {std::pair(kLaneSocketName, os::SocketKind::kMessages),
                                   {kBrokerSocketName, os::SocketKind::kStream}}) {
    wanted.push_back({ClientSocketPath(options_.directory, name), kind});
  }
  for (const char* name : {kAdminSocketName, kMetricsSocketName}) {
    wanted.push_back({options_.directory + "/" + name, os::SocketKind::kStream});
  }
  Result<os::InheritedSockets> checked = os::InheritedSockets::Check(std::move(options_.inherited), wanted);
  if (!checked.ok()) return checked.status();
  inherited_ = std::move(checked).value();
  activated_ = !inherited_.empty();
  if (!activated_) return Status::Ok();
  for (const Setting& setting : options_.config.settings) {
    if (setting.origin != Setting::Origin::kDefault && setting.name.starts_with("broker.") &&
        (setting.name.ends_with("-socket-mode") || setting.name.ends_with("-socket-group"))) {
      ops::LogWarning("setting without effect",
                      setting.name + ": the sockets are those of the service manager; set SocketMode= and " +
                          "SocketGroup= of the socket unit instead");
    }
  }
  return Status::Ok();
}

Status Server::Impl::Listen(const std::string& path, os::SocketKind kind, std::uint32_t mode,
                            std::optional<std::uint32_t> group, UniqueFd* out) {
  os::FileFacts facts;
  if (UniqueFd given = inherited_.Take(path)) {
    if (os::LookAtLink(path, &facts) == 0 && facts.kind == os::FileFacts::Kind::kSocket) {
      *out = std::move(given);
      return Status::Ok();
    }
    ops::LogWarning("inherited socket",
                    path +
                        " was removed after the service manager had made it, and no client "
                        "can reach it; a new one was made. Restart the socket unit");
  } else if (activated_) {
    ops::LogWarning("inherited socket",
                    path +
                        " was not among the sockets of the service manager, and was made; "
                        "look at systemctl status ndbrokerd.socket ndbrokerd-admin.socket");
  }
  Result<UniqueFd> fd = ListenUnix(path, kind, mode, group);
  if (!fd.ok()) return fd.status();
  bound_.push_back(path);
  *out = std::move(fd.value());
  return Status::Ok();
}

void Server::Impl::StartHistory() {
  const HistorySettings& settings = options_.config.history;
  if (!settings.enabled) return;
  state::History::Options options;
  options.file = HistoryFile(settings, options_.directory);
  options.keep = std::chrono::hours(24) * settings.keep_days;
  options.max_rows = settings.max_rows;
  options.tell = [this](bool good, const std::string& line) {
    good ? ops::LogInfo(line) : ops::LogWarning("history", line);
    loop_.Post([this, good, line] { hub_.Publish(good ? "history.resumed" : "history.trouble", "", line); });
  };
  history_ = std::make_unique<state::History>(std::move(options));
  history_sink_ = std::make_unique<HistorySink>(clock_, *history_);
  shell_->AddRecordSink(history_sink_.get());
  // Opens its descriptors now and not later; a hanging disk delays the start by at most a second.
  history_->AwaitOpen(std::chrono::seconds(1));
}

Status Server::Impl::Start() {
  const Config& config = options_.config;
  Result<UniqueFd> lock = LockRuntimeDirectory(options_.directory);
  if (!lock.ok()) return lock.status();
  lock_ = std::move(lock.value());
  if (Status s = MakeClientDirectory(options_.directory); !s.ok()) return s;

  const auto epoch = static_cast<std::uint32_t>(ops::RandomNumber() % 0xFFFF + 1);  // Handles carry 16 bits.
  BrokerShell::Options shell;
  shell.config = config;
  shell.directory = options_.directory;
  shell.boot_epoch = epoch;
  shell.seed = ops::RandomNumber();
  shell.version = options_.version;
  shell.make_manager = options_.make_manager;
  shell.on_proven = [this](std::uint64_t cookie) { clients_->Proven(cookie); };
  Result<std::unique_ptr<BrokerShell>> made =
      BrokerShell::Make({loop_, hello_, reaper_}, hub_, std::move(shell));
  if (!made.ok()) return made.status();
  shell_ = std::move(made.value());

  StartHistory();
  StartPulse();
  observatory_ = std::make_unique<Observatory>(loop_, *shell_, history_.get(), admin_tally_);
  shell_->AddRecordSink(observatory_.get());

  guard_ = std::make_unique<GuardedStreams>(GuardedStreams::Options{
      .streams_per_uid = {512, 256}, .on_flood = [this](const Peer& peer, std::string_view why) {
        ops::LogWarning("connection ended", std::string(kBrokerSocketName) + ": uid " +
                                                std::to_string(peer.uid) + " (pid " +
                                                std::to_string(peer.pid) + "): " + std::string(why));
        loop_.Post([this] { shell_->doors()[kBrokerSocketName].Refuse(ops::Refusal::kFlood); });
      }});
  session_service_ = std::make_unique<SessionService>(
      loop_, *shell_,
      SessionService::Options{config.limits.session_queue_bytes, options_.version,
                              options_.directory + "/" + kPodsDirectoryName,
                              [this](std::string_view peer) { return guard_->PeerOfCall(peer); }});
  AdminService::Options admin;
  admin.version = options_.version;
  admin.config_file = config.file;
  admin.directory = options_.directory;
  admin.grpc = config.broker.grpc;
  admin.descriptors_wanted = DescriptorsWanted(config);
  admin.configuration.settings = [this] { return Settings(); };
  admin.configuration.needs_restart = [this](const Config& wanted) {
    std::lock_guard held(reload_mutex_);
    return NeedsRestart(options_.config, wanted);
  };
  admin.configuration.parse =
      options_.parse != nullptr ? options_.parse : [](const std::string& text, const std::string& file) {
        return ParseConfig(text, file);
      };
  admin.configuration.load = options_.load;
  admin.boot_epoch = epoch;
  admin.watch_queue_events = config.limits.watch_queue_events;
  admin.reload = [this] { return Reload(); };
  admin.test_clock = options_.test_clock ? &clock_ : nullptr;
  admin.observatory = observatory_.get();
  admin.history = history_.get();
  admin.history_reader = &history_reader_;
  admin_service_ = std::make_unique<AdminService>(loop_, snapshots_, hub_, *shell_, std::move(admin));
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
      loop_, kBrokerSocketName, shell_->doors()[kBrokerSocketName],
      Gate::Limits{limits.unauthenticated, limits.unauthenticated_per_uid, limits.connections_per_uid},
      limits.hello_timeout, [this](UniqueFd fd, const Peer& peer) {
        if (UniqueFd inner = guard_->Guard(std::move(fd), peer)) {
          grpc::AddInsecureChannelFromFd(broker_server_.get(), inner.release());
        } else {
          shell_->doors()[kBrokerSocketName].Refuse(ops::Refusal::kDescriptors);
        }
      });
  admins_ = std::make_unique<ControlConnections>(
      loop_, kAdminSocketName, shell_->doors()[kAdminSocketName],
      Gate::Limits{limits.admin_connections, limits.admin_connections, limits.admin_connections},
      Duration::zero(), [this](UniqueFd fd, const Peer&) {
        grpc::AddInsecureChannelFromFd(admin_server_.get(), fd.release());
      });

  // Connections that only receive a refusal. They cannot take the places of others.
  foreign_admins_ = std::make_unique<ControlConnections>(
      loop_, kAdminSocketName, shell_->doors()[kAdminSocketName], Gate::Limits{16, 16, 16, 0},
      Duration::zero(), [this](UniqueFd fd, const Peer&) {
        grpc::AddInsecureChannelFromFd(refusal_server_.get(), fd.release());
      });

  if (Status s = TakeInheritedSockets(); !s.ok()) return s;
  const BrokerSettings& broker = config.broker;
  const auto admin_path = [this](const char* name) { return options_.directory + "/" + name; };
  const auto client_path = [this](const char* name) { return ClientSocketPath(options_.directory, name); };
  UniqueFd lane_fd, broker_fd, admin_fd;
  if (Status s = Listen(admin_path(kAdminSocketName), os::SocketKind::kStream, broker.admin_mode,
                        broker.admin_group, &admin_fd);
      !s.ok()) {
    return s;
  }
  if (config.metrics.enabled) {
    shell_->doors().try_emplace(kMetricsSocketName);  // Metrics show the count before the first refusal.
    UniqueFd metrics_fd;
    if (Status s = Listen(admin_path(kMetricsSocketName), os::SocketKind::kStream, broker.admin_mode,
                          broker.admin_group, &metrics_fd);
        !s.ok()) {
      return s;
    }
    http_ = std::make_unique<HttpService>(
        loop_, *observatory_, *shell_, hub_, *pulse_,
        HttpService::Options{config.metrics, options_.version, options_.directory, [this](int fd) {
                               // On the thread of the responder; the doors belong to the loop.
                               const std::optional<Peer> peer = PeerOf(fd);
                               if (peer && !RefusesForeign(kMetricsSocketName, fd, *peer))
                                 return std::string();
                               const auto why =
                                   peer ? ops::Refusal::kForeignNamespace : ops::Refusal::kCredentials;
                               loop_.Post([this, why] { shell_->doors()[kMetricsSocketName].Refuse(why); });
                               return std::string(kForeignAdmin);
                             }});
    http_->Start(std::move(metrics_fd));
    http_->Join(*pulse_);
  }
  if (broker.grpc) {
    if (Status s = Listen(client_path(kBrokerSocketName), os::SocketKind::kStream, broker.client_mode,
                          broker.client_group, &broker_fd);
        !s.ok()) {
      return s;
    }
  }
  // The last socket to be opened: clients wait for it.
  if (Status s = Listen(client_path(kLaneSocketName), os::SocketKind::kMessages, broker.client_mode,
                        broker.client_group, &lane_fd);
      !s.ok()) {
    return s;
  }
  const auto accept = [this](const char* name, UniqueFd fd, Acceptor::Accepted accepted) {
    acceptors_.push_back(
        std::make_unique<Acceptor>(loop_, name, shell_->doors()[name], std::move(fd), std::move(accepted)));
  };
  accept(kLaneSocketName, std::move(lane_fd),
         [this](UniqueFd fd, const Peer& peer) { shell_->OfferLane(std::move(fd), peer); });
  if (broker.grpc)
    accept(kBrokerSocketName, std::move(broker_fd),
           [this](UniqueFd fd, const Peer& peer) { clients_->Offer(std::move(fd), peer); });
  accept(kAdminSocketName, std::move(admin_fd),
         [this, &door = shell_->doors()[kAdminSocketName]](UniqueFd fd, const Peer& peer) {
           const bool refused = RefusesForeign(kAdminSocketName, fd.get(), peer);
           if (refused) door.Refuse(ops::Refusal::kForeignNamespace);
           (refused ? foreign_admins_ : admins_)->Offer(std::move(fd), peer);
         });
  WarnUnlessReady();
  thread_ = std::thread([this] { loop_.Run(); });
  os::NameThread(thread_, "nd-loop");
  // Joined only now: during a slow start the loop would become stale.
  pulse_->Join("loop", [this](std::function<void()> question) { loop_.Post(std::move(question)); });
  return Status::Ok();
}

void Server::Impl::StartPulse() {
  pulse_ = std::make_unique<ops::Pulse>(ops::Pulse::Options{.on_round = options_.on_pulse});
  for (const auto& [name, worker] : {std::pair("hello", &hello_), std::pair("snapshots", &snapshots_)}) {
    pulse_->Join(name, [worker](std::function<void()> question) { worker->Post(std::move(question)); });
  }
  if (history_ == nullptr) return;
  // A disk may be slow; only requests for the history wait for it.
  pulse_->Join(
      "history", [this](std::function<void()> question) { history_->Post(std::move(question)); }, 30);
}

void Server::Impl::WarnUnlessReady() const {
  Picture picture;
  picture.adapters = shell_->core().Adapters();
  const std::string why_not = picture.NotReady();
  if (why_not.empty()) return;
  ops::LogWarning("not ready", why_not +
                                   " Look at \"addresses\" of [[adapter]] and at ip address; a service needs "
                                   "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK");
}

Status Server::Impl::Reload() {
  std::lock_guard lock(reload_mutex_);
  if (options_.load == nullptr)
    return {StatusCode::kNotSupported, "the broker was started without a configuration file"};
  Result<Config> loaded = options_.load();
  if (!loaded.ok()) {
    ops::LogError("reload refused, the old configuration stays: " + loaded.status().message());
    return loaded.status();
  }
  const std::string restart = NeedsRestart(options_.config, loaded.value());
  std::vector<Setting> settings = SettingsAfterReload(options_.config, loaded.value());
  const std::string changed = ChangedSettings(options_.config.settings, settings);
  options_.config.settings = std::move(settings);
  ops::SetLogLevel(loaded->broker.log_level);
  std::promise<void> done;
  loop_.Post([this, &done, config = loaded.value()] {
    shell_->Apply(config);
    hub_.Publish("config.reloaded", config.file, "the policy and the settings of the core were read again");
    done.set_value();
  });
  done.get_future().wait();
  std::string outcome = changed.empty() ? "no setting in effect has changed" : "in effect now: " + changed;
  if (!restart.empty()) outcome += "; changes in " + restart + " take effect at the next start";
  ops::LogInfo("configuration reloaded from " + loaded->file + ": " + outcome);
  return {StatusCode::kSuccess, outcome};
}

std::vector<Setting> Server::Impl::Settings() {
  std::lock_guard lock(reload_mutex_);
  std::vector<Setting> settings = options_.config.settings;
  for (Setting& setting : settings) {
    // Shows the directory that resulted from the rule of docs/configuration.md.
    if (setting.name == "broker.directory" && setting.value.empty()) setting.value = options_.directory;
  }
  return settings;
}

void Server::Impl::StopAccepting() {
  acceptors_.clear();
  for (const std::string& path : bound_) os::RemoveFile(path);
  bound_.clear();
}

void Server::Impl::LeaveListeners() {
  constexpr int kRounds = 20;
  const auto on_loop = [this](auto what) {
    std::promise<bool> done;
    loop_.Post([&] { done.set_value(what()); });
    return done.get_future().get();
  };
  if (!on_loop([this] { return shell_->LeaveListeners(); })) return;
  for (int i = 0; i < kRounds && !on_loop([this] { return shell_->manager().handshakes() == 0; }); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Server::Impl::Stop() {
  if (http_ != nullptr) http_->Stop();
  if (pulse_ != nullptr) pulse_->Stop();  // Stops before the threads that it checks.
  if (thread_.joinable()) {
    LeaveListeners();
    std::promise<void> done;
    loop_.Post([this, &done] {
      StopAccepting();
      shell_->Stop();
      done.set_value();
    });
    done.get_future().wait();
  } else {
    StopAccepting();
  }
  // The loop still runs: calls that wait for it finish, and streams that do not end are cut.
  const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(250);
  if (broker_server_ != nullptr) broker_server_->Shutdown(deadline);
  if (admin_server_ != nullptr) admin_server_->Shutdown(deadline);
  if (refusal_server_ != nullptr) refusal_server_->Shutdown(deadline);
  if (thread_.joinable()) {
    loop_.Stop();
    thread_.join();
  }
  // Streams may outlive their sessions only until here.
  clients_.reset();
  admins_.reset();
  foreign_admins_.reset();
  broker_server_.reset();
  admin_server_.reset();
  refusal_server_.reset();
  guard_.reset();
  http_.reset();
  session_service_.reset();
  admin_service_.reset();
  shell_.reset();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Status Server::Reload() {
  return impl_->Reload();
}

}  // namespace nd::service
