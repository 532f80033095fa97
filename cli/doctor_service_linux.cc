// SPDX-License-Identifier: Apache-2.0
// Which unit and which packages a broker comes from, and how it is confined.
#include <charconv>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cli/doctor.h"

namespace nd::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnit = "ndbrokerd.service";

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error)) && !error;
}

// "12:pids:/system.slice/ndbrokerd.service" says ndbrokerd.service.
std::string UnitOf(std::uint32_t pid) {
  std::ifstream cgroups("/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    const std::string last = line.substr(line.rfind('/') + 1);
    if (last.ends_with(".service")) return last;
  }
  return {};
}

std::uint64_t Number(const std::string& text, int base) {
  std::uint64_t number = 0;
  const std::size_t first = text.find_first_not_of(" \t");
  if (first != text.npos) std::from_chars(text.data() + first, text.data() + text.size(), number, base);
  return number;
}

}  // namespace

ServiceFact GatherService(std::uint32_t pid) {
  ServiceFact fact;
  for (const char* directory : {"/etc/systemd/system/", "/lib/systemd/system/", "/usr/lib/systemd/system/"}) {
    fact.unit_installed |= Exists(std::string(directory) + kUnit);
  }
  fact.unit_enabled = Exists(std::string("/etc/systemd/system/multi-user.target.wants/") + kUnit);
  for (const char* directory : {"/etc/systemd/system/", "/run/systemd/system/"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(std::string(directory) + kUnit + ".d", error)) {
      if (entry.path().extension() == ".conf") fact.drop_ins.push_back(entry.path());
    }
  }
  if (pid == 0) return fact;
  fact.broker_unit = UnitOf(pid);
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string name = line.substr(0, colon), value = line.substr(colon + 1);
    if (name == "Seccomp") {
      fact.filters_system_calls = Number(value, 10) == 2;
      fact.sandbox_known = true;
    }
    if (name == "NoNewPrivs") fact.no_new_privileges = Number(value, 10) == 1;
    if (name == "CapEff") fact.capabilities = Number(value, 16);
  }
  return fact;
}

std::vector<PackageFact> PackagesIn(std::istream& status) {
  std::vector<PackageFact> packages;
  PackageFact package;
  bool present = false;
  const auto finish = [&] {
    const bool ours = package.name.starts_with("ndbroker") || package.name.starts_with("libndbroker");
    if (ours && present) packages.push_back(package);
    package = {};
    present = false;
  };
  for (std::string line; std::getline(status, line);) {
    if (line.empty()) finish();
    if (line.starts_with("Package: ")) package.name = line.substr(9);
    if (line.starts_with("Version: ")) package.version = line.substr(9);
    if (line.starts_with("Status: ")) {
      present = !line.ends_with(" config-files") && !line.ends_with(" not-installed");
      package.whole = line.ends_with(" ok installed");
    }
  }
  finish();
  return packages;
}

}  // namespace nd::cli
