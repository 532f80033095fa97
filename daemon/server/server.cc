// SPDX-License-Identifier: Apache-2.0
// The order of start and stop. Every other file of the folder only knows its own part.
#include "daemon/server/server.h"

#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/locate.h"
#include "base/os/file.h"
#include "base/os/inherited_sockets.h"
#include "base/os/thread.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/ops/pulse.h"
#include "daemon/server/runtime_dir.h"
#include "daemon/server/services.h"
#include "daemon/service/acceptor.h"
#include "daemon/service/reaper.h"
#include "daemon/service/worker.h"

namespace nd::service {

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
  // Runs `what` on the loop's thread, which must run, and returns its result.
  template <typename What>
  auto OnLoop(const What& what) {
    using Result = decltype(what());
    // It belongs to both threads: the one that waits goes on while set_value() still runs in the other one.
    const auto done = std::make_shared<std::promise<Result>>();
    std::future<Result> result = done->get_future();
    loop_.Post([done, &what] {
      if constexpr (std::is_void_v<Result>) {
        what();
        done->set_value();
      } else {
        done->set_value(what());
      }
    });
    return result.get();
  }
  void StartPulse();
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
  // client, closing sockets that block.
  Worker hello_{"nd-hello"};
  Reaper reaper_;
  WatchHub hub_;
  std::vector<std::string> bound_;
  std::unique_ptr<Services> services_;  // Ends after the shell, which reports to it.
  std::unique_ptr<BrokerShell> shell_;
  std::unique_ptr<ops::Pulse> pulse_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;  // Of the loop once it runs.
  std::thread thread_;
  std::mutex reload_mutex_;
};

Status Server::Impl::TakeInheritedSockets() {
  std::vector<os::InheritedSockets::Wanted> wanted = services_->Sockets();
  wanted.push_back({ClientSocketPath(options_.directory, kLaneSocketName), os::SocketKind::kMessages});
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
  shell.on_proven = [this](std::uint64_t cookie) { services_->Proven(cookie); };
  Result<std::unique_ptr<BrokerShell>> made =
      BrokerShell::Make({loop_, hello_, reaper_}, hub_, std::move(shell));
  if (!made.ok()) return made.status();
  shell_ = std::move(made.value());

  StartPulse();
  ServicesHost host{options_, epoch, clock_,  loop_,   loop_.clock().Now(),
                    hello_,   hub_,  *shell_, *pulse_, {},
                    {},       {},    {},      {},      {}};
  host.reload = [this] { return Reload(); };
  host.settings = [this] { return Settings(); };
  host.needs_restart = [this](const Config& wanted) {
    std::lock_guard held(reload_mutex_);
    return NeedsRestart(options_.config, wanted);
  };
  host.listen = [this](const std::string& path, os::SocketKind kind, std::uint32_t mode,
                       std::optional<std::uint32_t> group,
                       UniqueFd* out) { return Listen(path, kind, mode, group, out); };
  host.on_loop = [this](const std::function<void()>& what) { OnLoop(what); };
  host.accept = [this](const char* name, UniqueFd fd, Acceptor::Accepted accepted) {
    acceptors_.push_back(
        std::make_unique<Acceptor>(loop_, name, shell_->doors()[name], std::move(fd), std::move(accepted)));
  };
  services_ = options_.make_services != nullptr ? options_.make_services(std::move(host))
                                                : std::make_unique<Services>();
  if (Status s = TakeInheritedSockets(); !s.ok()) return s;
  if (Status s = services_->Listen(); !s.ok()) return s;
  // The last socket to be opened: clients wait for it.
  const BrokerSettings& broker = config.broker;
  UniqueFd lane_fd;
  if (Status s = Listen(ClientSocketPath(options_.directory, kLaneSocketName), os::SocketKind::kMessages,
                        broker.client_mode, broker.client_group, &lane_fd);
      !s.ok()) {
    return s;
  }
  acceptors_.push_back(std::make_unique<Acceptor>(
      loop_, kLaneSocketName, shell_->doors()[kLaneSocketName], std::move(lane_fd),
      [this](UniqueFd fd, const Peer& peer) { shell_->OfferLane(std::move(fd), peer); }));
  thread_ = std::thread([this] { loop_.Run(); });
  os::NameThread(thread_, "nd-loop");
  // Joined only now: during a slow start the loop would become stale.
  pulse_->Join("loop", [this](std::function<void()> question) { loop_.Post(std::move(question)); });
  return services_->Serve();
}

void Server::Impl::StartPulse() {
  pulse_ = std::make_unique<ops::Pulse>(ops::Pulse::Options{.on_round = options_.on_pulse});
  pulse_->Join("hello", [this](std::function<void()> question) { hello_.Post(std::move(question)); });
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
  OnLoop([this, &config = loaded.value()] {
    shell_->Apply(config);
    hub_.Publish("config.reloaded", config.file, "the policy and the settings of the core were read again");
  });
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
  if (!OnLoop([this] { return shell_->LeaveListeners(); })) return;
  for (int i = 0; i < kRounds && !OnLoop([this] { return shell_->manager().handshakes() == 0; }); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Server::Impl::Stop() {
  if (services_ != nullptr) services_->StopFirst();
  if (pulse_ != nullptr) pulse_->Stop();  // Stops before the threads that it checks.
  if (thread_.joinable()) {
    LeaveListeners();
    OnLoop([this] {
      StopAccepting();
      shell_->Stop();
    });
  } else {
    StopAccepting();
  }
  // The loop still runs: calls that wait for it finish, and streams that do not end are cut.
  if (services_ != nullptr) services_->StopLast();
  if (thread_.joinable()) {
    loop_.Stop();
    thread_.join();
  }
  // Streams may outlive their sessions only until here.
  if (services_ != nullptr) services_->EndStreams();
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
