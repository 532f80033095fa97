// SPDX-License-Identifier: Apache-2.0
// The order in which things start and stop; every other file of the folder only knows its own part.
#include "daemon/service/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>

#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/locate.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/service/acceptor.h"
#include "daemon/service/admin_service.h"
#include "daemon/service/admin_tally.h"
#include "daemon/service/control_connections.h"
#include "daemon/service/history_sink.h"
#include "daemon/service/http_service.h"
#include "daemon/service/observatory.h"
#include "daemon/service/runtime_dir.h"
#include "daemon/service/session_service.h"
#include "daemon/service/worker.h"

namespace nd::service {
namespace {

constexpr int kMaxAdminMessage = 4 * 1024 * 1024;  // A whole configuration file.

// What the limits let strangers and half-done handshakes hold at once, two for each client's two sockets.
std::uint64_t DescriptorsWanted(const Config& config) {
  return std::uint64_t{2} * config.limits.unauthenticated + config.limits.admin_connections +
         config.manager.soft.max_half_open + config.core.max_handshakes_in_flight;
}

// `tally` null: calls are not counted.
std::unique_ptr<grpc::Server> Build(grpc::Service* service, const char* name, std::uint32_t memory,
                                    int max_message, AdminTally* tally) {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  grpc::ResourceQuota quota(name);
  quota.Resize(memory);
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(max_message);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);  // Reflection only.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  if (tally != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(CountCalls(*tally));
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
  }
  return builder.BuildAndStart();
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)), loop_(clock_) {}
  ~Impl() { Stop(); }

  Status Start();
  Status Reload();

 private:
  Status Listen(const char* name, int type, mode_t mode, std::optional<gid_t> group, UniqueFd* out);
  void StartHistory();
  std::vector<Setting> Settings();
  void Stop();
  void StopAccepting();

  Options options_;
  UniqueFd lock_;
  SkippingClock clock_;  // Never skips unless the test clock was asked for.
  EventLoop loop_;
  Worker worker_;
  WatchHub hub_;
  AdminTally admin_tally_;
  std::unique_ptr<state::History> history_;
  std::unique_ptr<HistorySink> history_sink_;
  Worker history_reader_;
  std::unique_ptr<Observatory> observatory_;
  std::vector<std::string> bound_;
  std::unique_ptr<BrokerShell> shell_;
  std::unique_ptr<HttpService> http_;
  std::unique_ptr<SessionService> session_service_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<grpc::Server> broker_server_, admin_server_;
  std::unique_ptr<ControlConnections> clients_, admins_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::thread thread_;
  std::mutex reload_mutex_;
};

Status Server::Impl::Listen(const char* name, int type, mode_t mode, std::optional<gid_t> group,
                            UniqueFd* out) {
  const std::string path = options_.directory + "/" + name;
  Result<UniqueFd> fd = ListenUnix(path, type, mode, group);
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
  // So that from the first moment as many descriptors are open as later; a disk that hangs holds nobody up.
  history_->AwaitOpen(std::chrono::seconds(1));
}

Status Server::Impl::Start() {
  const Config& config = options_.config;
  Result<UniqueFd> lock = LockRuntimeDirectory(options_.directory);
  if (!lock.ok()) return lock.status();
  lock_ = std::move(lock.value());

  const auto epoch = static_cast<std::uint32_t>(ops::RandomNumber() % 0xFFFF + 1);  // Handles carry 16 bits.
  BrokerShell::Options shell;
  shell.config = config;
  shell.directory = options_.directory;
  shell.boot_epoch = epoch;
  shell.seed = ops::RandomNumber();
  shell.version = options_.version;
  shell.make_manager = options_.make_manager;
  shell.on_proven = [this](std::uint64_t cookie) { clients_->Proven(cookie); };
  Result<std::unique_ptr<BrokerShell>> made = BrokerShell::Make(loop_, worker_, hub_, std::move(shell));
  if (!made.ok()) return made.status();
  shell_ = std::move(made.value());

  StartHistory();
  observatory_ = std::make_unique<Observatory>(loop_, *shell_, history_.get(), admin_tally_);
  shell_->AddRecordSink(observatory_.get());

  session_service_ = std::make_unique<SessionService>(
      loop_, *shell_, SessionService::Options{config.limits.session_queue_bytes, options_.version});
  AdminService::Options admin;
  admin.version = options_.version;
  admin.config_file = config.file;
  admin.directory = options_.directory;
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
  admin_service_ = std::make_unique<AdminService>(loop_, worker_, hub_, *shell_, std::move(admin));
  broker_server_ = Build(session_service_.get(), "broker", config.limits.grpc_memory_bytes,
                         static_cast<int>(provider::kMaxClientMessage), nullptr);
  admin_server_ =
      Build(admin_service_.get(), "admin", config.limits.grpc_memory_bytes, kMaxAdminMessage, &admin_tally_);
  if (broker_server_ == nullptr || admin_server_ == nullptr) {
    return {StatusCode::kUnsuccessful, "gRPC did not start"};
  }
  broker_server_->GetHealthCheckService()->SetServingStatus("ndbroker.v1.Broker", true);
  admin_server_->GetHealthCheckService()->SetServingStatus("ndbroker.v1.Admin", true);

  const ServiceLimits& limits = config.limits;
  clients_ = std::make_unique<ControlConnections>(
      loop_, kBrokerSocketName, shell_->doors()[kBrokerSocketName],
      Gate::Limits{limits.unauthenticated, limits.unauthenticated_per_uid, limits.connections_per_uid},
      limits.hello_timeout, [this](int fd) { grpc::AddInsecureChannelFromFd(broker_server_.get(), fd); });
  admins_ = std::make_unique<ControlConnections>(
      loop_, kAdminSocketName, shell_->doors()[kAdminSocketName],
      Gate::Limits{limits.admin_connections, limits.admin_connections, limits.admin_connections},
      Duration::zero(), [this](int fd) { grpc::AddInsecureChannelFromFd(admin_server_.get(), fd); });

  const BrokerSettings& broker = config.broker;
  UniqueFd lane_fd, broker_fd, admin_fd;
  if (Status s = Listen(kLaneSocketName, SOCK_SEQPACKET, broker.client_mode, broker.client_group, &lane_fd);
      !s.ok()) {
    return s;
  }
  if (Status s = Listen(kAdminSocketName, SOCK_STREAM, broker.admin_mode, broker.admin_group, &admin_fd);
      !s.ok()) {
    return s;
  }
  if (config.metrics.enabled) {
    shell_->doors().try_emplace(kMetricsSocketName);  // So that it is shown before anything went wrong.
    UniqueFd metrics_fd;
    if (Status s =
            Listen(kMetricsSocketName, SOCK_STREAM, broker.admin_mode, broker.admin_group, &metrics_fd);
        !s.ok()) {
      return s;
    }
    http_ = std::make_unique<HttpService>(
        loop_, *observatory_, *shell_, hub_,
        HttpService::Options{config.metrics, options_.version, options_.directory});
    http_->Start(std::move(metrics_fd));
  }
  // Last: clients look for this one.
  if (Status s = Listen(kBrokerSocketName, SOCK_STREAM, broker.client_mode, broker.client_group, &broker_fd);
      !s.ok()) {
    return s;
  }
  const auto accept = [this](const char* name, UniqueFd fd, Acceptor::Accepted accepted) {
    acceptors_.push_back(
        std::make_unique<Acceptor>(loop_, name, shell_->doors()[name], std::move(fd), std::move(accepted)));
  };
  accept(kLaneSocketName, std::move(lane_fd),
         [this](UniqueFd fd, const Peer& peer) { shell_->OfferLane(std::move(fd), peer); });
  accept(kBrokerSocketName, std::move(broker_fd),
         [this](UniqueFd fd, const Peer& peer) { clients_->Offer(std::move(fd), peer); });
  accept(kAdminSocketName, std::move(admin_fd),
         [this](UniqueFd fd, const Peer& peer) { admins_->Offer(std::move(fd), peer); });
  thread_ = std::thread([this] { loop_.Run(); });
  return Status::Ok();
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
  options_.config.settings = SettingsAfterReload(options_.config, loaded.value());
  ops::SetLogLevel(loaded->broker.log_level);
  std::promise<void> done;
  loop_.Post([this, &done, config = loaded.value()] {
    shell_->Apply(config);
    hub_.Publish("config.reloaded", config.file, "the policy and the settings of the core were read again");
    done.set_value();
  });
  done.get_future().wait();
  ops::LogInfo("configuration reloaded from " + loaded->file);
  if (restart.empty()) return Status::Ok();
  return {StatusCode::kSuccess, "reloaded; changes in " + restart + " take effect at the next start"};
}

std::vector<Setting> Server::Impl::Settings() {
  std::lock_guard lock(reload_mutex_);
  std::vector<Setting> settings = options_.config.settings;
  for (Setting& setting : settings) {
    // The rule of docs/configuration.md, as it came out here.
    if (setting.name == "broker.directory" && setting.value.empty()) setting.value = options_.directory;
  }
  return settings;
}

void Server::Impl::StopAccepting() {
  acceptors_.clear();
  for (const std::string& path : bound_) ::unlink(path.c_str());
  bound_.clear();
}

void Server::Impl::Stop() {
  if (http_ != nullptr) http_->Stop();
  if (thread_.joinable()) {
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
  // While the loop still runs: calls that wait for it are answered, streams that do not end are cut.
  const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(250);
  if (broker_server_ != nullptr) broker_server_->Shutdown(deadline);
  if (admin_server_ != nullptr) admin_server_->Shutdown(deadline);
  if (thread_.joinable()) {
    loop_.Stop();
    thread_.join();
  }
  // Streams may outlive their sessions only until here.
  clients_.reset();
  admins_.reset();
  broker_server_.reset();
  admin_server_.reset();
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
