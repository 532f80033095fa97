// SPDX-License-Identifier: Apache-2.0
// Readiness is asked of the admin service, not assumed after a delay.
#include "tests/testing/daemon.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace nd::testing {

std::string Counts::ToString() const {
  std::ostringstream out;
  out << "sessions " << sessions << ", connections " << connections << ", listeners " << listeners
      << ", endpoints " << endpoints << ", queue pairs " << queue_pairs << ", ports " << ports
      << ", descriptors " << descriptors << ", handshakes " << handshakes;
  return out.str();
}

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)), directory_(MakeTempDirectory("ndconf-")) {
  GiveDirectory(directory_, options_.uid);
  WriteConfig();
}

Daemon::~Daemon() {
  Kill();
  Probe::Get().Forget(directory());
  RemoveTree(directory_);
}

void Daemon::WriteConfig() {
  std::ofstream file(directory_ + "/config.toml");
  std::map<std::string, std::string> sections = options_.sections;
  sections["broker"] += "\ndirectory = \"" + directory_ + "/run\"\n";
  // The test administers brokers of namespaces that it made from outside.
  if (options_.network_namespace >= 0) sections["broker"] += "admin-namespaces = \"any\"\n";
  for (const auto& [name, lines] : sections) file << "[" << name << "]\n" << lines << "\n";
  for (const std::string& adapter : options_.adapters) file << "[[adapter]]\n" << adapter << "\n";
  for (const std::string& rule : options_.rules) file << "[[rule]]\n" << rule << "\n";
}

void Daemon::Configure(DaemonOptions options) {
  options_ = std::move(options);
  WriteConfig();
}

bool Daemon::Start() {
  Launch();
  return AwaitReady();
}

void Daemon::Launch() {
  SpawnOptions spawn;
  spawn.arguments = {BinaryDirectory() + "/ndbrokerd", "--config", directory_ + "/config.toml",
                     "--test-clock"};
  spawn.output = directory_ + "/log";
  spawn.network_namespace = options_.network_namespace;
  spawn.uid = options_.uid;
  spawn.nice = options_.nice;
  Probe::Get().Forget(directory());
  process_ = Process::Spawn(spawn);
}

bool Daemon::AwaitReady() {
  return Eventually(
             [&] {
               if (!process_.running()) return true;
               if (!MayListen(directory() + "/admin.sock")) return false;
               if (Count().sessions != ~0ULL) return true;
               Probe::Get().Forget(
                   directory());  // gRPC backs off after a failed dial; a new channel does not.
               return false;
             },
             std::chrono::seconds(20)) &&
         process_.running();
}

bool Daemon::Stop() {
  process_.AskToEnd();
  const std::optional<int> status = process_.Wait(std::chrono::seconds(10));
  if (!status) process_.Kill();
  Probe::Get().Forget(directory());
  return status && ExitCode(*status) == 0;
}

int Daemon::EndedBySignal() {
  const std::optional<int> status = process_.Wait(std::chrono::milliseconds(0));
  return status ? FatalSignal(*status) : 0;
}

void Daemon::Kill() {
  process_.Kill();
  Probe::Get().Forget(directory());
}

std::string Daemon::log() const {
  std::ifstream file(directory_ + "/log");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Status Daemon::Reload() {
  return Change("Reload", "");
}

Status Daemon::Change(const std::string& method, const std::string& request) {
  const Flat flat = Admin(method, request);
  if (!flat.ok()) return Status(StatusCode::kUnsuccessful, flat.error);
  return Status(static_cast<StatusCode>(flat.Number("status.code")), flat["status.message"]);
}

Status Daemon::SkipTime(std::chrono::milliseconds by) {
  return Change("SkipTime", "milliseconds: " + std::to_string(by.count()));
}

Status Daemon::SetAdapter(const std::string& name, bool enabled) {
  return Change("SetAdapter", "name: \"" + name + "\" enabled: " + (enabled ? "true" : "false"));
}

Counts Daemon::Count() {
  Counts counts;
  const Flat status = Admin("GetStatus");
  if (!status.ok()) {
    counts.sessions = ~0ULL;
    return counts;
  }
  counts.sessions = status.Number("sessions");
  counts.connections = status.Number("connections");
  counts.listeners = status.Number("listeners");
  counts.endpoints = status.Number("shared_endpoints");
  counts.descriptors = status.Number("open_fds");
  counts.handshakes = status.Number("handshakes");
  counts.ports = Admin("ListPorts").Count("items");
  const Flat sessions = Admin("ListSessions");
  for (std::size_t i = 0; i < sessions.Count("items"); ++i) {
    const std::string row = "items." + std::to_string(i) + ".";
    counts.queue_pairs += sessions.Number(row + "queue_pairs");
    counts.connections += sessions.Number(row + "connectors")
                          << 32;  // Connectors without a port have no connection.
  }
  return counts;
}

}  // namespace nd::testing
