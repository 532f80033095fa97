// SPDX-License-Identifier: Apache-2.0
// Parses control group paths. Each engine has its own spelling, but all use one path element for each object.
#include "daemon/service/cgroup_name.h"

#include <algorithm>
#include <array>
#include <optional>

namespace nd::service {
namespace {

bool IsHex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}
bool IsContainerId(std::string_view text) {
  return text.size() == 64 && IsHex(text);
}

// Accepts "0a1b2c3d-..." with dashes, or with underscores where systemd escapes dashes.
std::optional<std::string> PodUid(std::string_view text) {
  if (text.size() == 32 && IsHex(text)) return std::string(text);  // Static pods have no separators.
  if (text.size() != 36) return std::nullopt;
  std::string uid(text);
  std::ranges::replace(uid, '_', '-');
  for (std::size_t i = 0; i < uid.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? uid[i] != '-' : !IsHex(uid.substr(i, 1))) return std::nullopt;
  }
  return uid;
}

std::string_view Without(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

// Returns the uid of the pod in "kubepods-burstable-pod0a1b_....slice" or "pod0a1b-...".
std::optional<std::string> PodOf(std::string_view element) {
  const std::string_view name = Without(element, ".slice");
  const std::size_t at = name.rfind("pod");
  if (at == name.npos || (at != 0 && name[at - 1] != '-')) return std::nullopt;
  return PodUid(name.substr(at + 3));
}

// Returns the id in "docker-<id>.scope", "cri-containerd-<id>.scope", "libpod-<id>.scope", "crio-<id>.scope",
// a bare id, or "kubepods-...:cri-containerd:<id>".
std::optional<std::string> ContainerIdOf(std::string_view element) {
  std::string_view name = Without(element, ".scope");
  if (const std::size_t colon = name.rfind(':'); colon != name.npos) name.remove_prefix(colon + 1);
  if (IsContainerId(name)) return std::string(name);
  const std::size_t dash = name.rfind('-');
  if (dash == name.npos || !IsContainerId(name.substr(dash + 1))) return std::nullopt;
  // The monitor of Podman and CRI-O runs beside the container, not inside.
  if (name.find("conmon") != name.npos) return std::nullopt;
  return std::string(name.substr(dash + 1));
}

// Returns the name for engines that write it: "lxc.payload.NAME", "lxc/NAME", and "machine-NAME.scope" of
// systemd-nspawn and libvirt.
std::optional<std::string> ContainerNameOf(std::string_view before, std::string_view element) {
  for (const std::string_view prefix : {"lxc.payload.", "lxc.payload/"}) {
    if (element.starts_with(prefix) && element.size() > prefix.size()) {
      return std::string(element.substr(prefix.size()));
    }
  }
  if ((before == "lxc" || before == "lxc.payload") && !element.empty()) return std::string(element);
  constexpr std::string_view kMachine = "machine-";
  if (element.starts_with(kMachine) && element.ends_with(".scope")) {
    return std::string(Without(element.substr(kMachine.size()), ".scope"));
  }
  return std::nullopt;
}

bool IsUnit(std::string_view element) {
  static constexpr std::array<std::string_view, 5> kKinds = {".service", ".scope", ".socket", ".mount",
                                                             ".swap"};
  return std::ranges::any_of(
      kKinds, [&](std::string_view kind) { return element.ends_with(kind) && element.size() > kind.size(); });
}

}  // namespace

std::string CgroupPath(std::string_view text) {
  std::string systemd;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    // The format is "number:controllers:path"; the path may contain colons.
    const std::size_t first = line.find(':');
    if (first == line.npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (!path.starts_with('/')) continue;
    if (controllers.empty() && line.substr(0, first) == "0" && path != "/") return std::string(path);
    if (controllers == "name=systemd" || (controllers.empty() && systemd.empty())) systemd = path;
  }
  return systemd;
}

CgroupOwner OwnerOfCgroup(std::string_view path) {
  CgroupOwner owner;
  std::string pod, container;
  std::string_view before;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    const std::string_view element = path.substr(0, end);
    path = end == path.npos ? std::string_view() : path.substr(end + 1);
    if (element.empty()) continue;
    if (auto uid = PodOf(element)) {
      pod = std::move(*uid);
      container.clear();
    } else if (auto id = ContainerIdOf(element)) {
      container = std::move(*id);
      owner.unit.clear();  // Units behind this element are inside the container.
    } else if (auto name = ContainerNameOf(before, element)) {
      container = std::move(*name);
      owner.unit.clear();
    } else if (IsUnit(element)) {
      owner.unit = element;
    }
    before = element;
  }
  owner.container = pod.empty() ? container : "pod " + pod + (container.empty() ? "" : "/" + container);
  return owner;
}

std::string PodUidOfCgroup(std::string_view path) {
  const auto next = [&path] {
    while (path.starts_with('/')) path.remove_prefix(1);
    const std::string_view element = path.substr(0, path.find('/'));
    path.remove_prefix(element.size());
    return element;
  };
  std::string_view element = next();
  const bool relative = element == "..";
  while (element == "..") element = next();
  // The drivers write "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice" and
  // "/kubepods/burstable/podUID". Groups above the common one are missing from a relative path.
  const bool top = element == "kubepods" || element == "kubepods.slice";
  if (!top && !relative) return {};
  if (top) element = next();
  for (const std::string_view qos : {"besteffort", "burstable", "guaranteed"}) {
    if (element != qos && element != "kubepods-" + std::string(qos) + ".slice") continue;
    element = next();
    break;
  }
  const bool named =
      element.starts_with("pod") || (element.starts_with("kubepods-") && element.ends_with(".slice"));
  return named ? PodOf(element).value_or(std::string()) : std::string();
}

}  // namespace nd::service
