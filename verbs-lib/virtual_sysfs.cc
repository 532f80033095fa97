// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/virtual_sysfs.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "verbs-lib/by_number.h"
#include "verbs-lib/device.h"
#include "verbs-lib/settings.h"

namespace nd::verbs_lib {
namespace {

constexpr std::string_view kClasses = "/sys/class/infiniband";
constexpr std::string_view kNodes = "/dev/infiniband/uverbs";

// Contents by path below the folder. A path that ends with '/' is a folder.
using Tree = std::map<std::string, std::string>;

std::string Hex16(const std::uint8_t* two) {
  char text[8];
  std::snprintf(text, sizeof text, "%02x%02x", two[0], two[1]);
  return text;
}

std::string GidText(const ibv_gid& gid) {
  std::string text;
  for (int i = 0; i < 16; i += 2) text += (i == 0 ? "" : ":") + Hex16(gid.raw + i);
  return text;
}

std::string GuidText(__be64 guid) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &guid, sizeof bytes);
  std::string text;
  for (int i = 0; i < 8; i += 2) text += (i == 0 ? "" : ":") + Hex16(bytes + i);
  return text;
}

// The interface of this network namespace that has the address; empty: none.
std::string InterfaceOf(const Address& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const std::size_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (Address::FromSockaddr(one->ifa_addr, static_cast<socklen_t>(size)).same_ip(address)) {
      name = one->ifa_name;
    }
  }
  freeifaddrs(all);
  return name;
}

void AddPort(const std::string& port, const AdapterInfo& info, Tree* tree) {
  char lid[16];
  std::snprintf(lid, sizeof lid, "0x%x", info.addresses.empty() ? 0 : LidOf(info.addresses.front()));
  (*tree)[port + "state"] = "4: ACTIVE";
  (*tree)[port + "phys_state"] = "5: LinkUp";
  (*tree)[port + "link_layer"] = "Ethernet";
  (*tree)[port + "rate"] = "100 Gb/sec (4X EDR)";
  (*tree)[port + "lid"] = lid;
  (*tree)[port + "sm_lid"] = "0x0";
  (*tree)[port + "lid_mask_count"] = "0";
  (*tree)[port + "cap_mask"] = "0x00010000";
  (*tree)[port + "pkeys/0"] = "0xffff";
  for (std::size_t i = 0; i < info.addresses.size(); ++i) {
    const std::string index = std::to_string(i);
    (*tree)[port + "gids/" + index] = GidText(GidOf(info.addresses[i]));
    (*tree)[port + "gid_attrs/types/" + index] = ActsAsIwarp() ? "IB/RoCE v1" : "RoCE v2";
    const std::string interface = InterfaceOf(info.addresses[i]);
    if (!interface.empty()) (*tree)[port + "gid_attrs/ndevs/" + index] = interface;
  }
}

void AddDevice(const Device& device, Tree* tree) {
  const AdapterInfo& info = device.info;
  const std::string folder = "/infiniband/" + std::string(device.abi.name) + "/";
  char number[16];
  (*tree)[folder + "node_type"] = ActsAsIwarp() ? "4: RNIC" : "1: CA";
  (*tree)[folder + "node_guid"] = (*tree)[folder + "sys_image_guid"] = GuidText(GuidOf(info));
  (*tree)[folder + "node_desc"] = "ndbroker";
  (*tree)[folder + "fw_ver"] = "ndbroker";
  AddPort(folder + "ports/1/", info, tree);
  (*tree)[folder + "device/net/"] = "";
  for (const Address& address : info.addresses) {
    const std::string interface = InterfaceOf(address);
    if (!interface.empty()) (*tree)[folder + "device/net/" + interface + "/"] = "";
  }
  std::snprintf(number, sizeof number, "0x%04x", info.vendor_id & 0xffff);
  (*tree)[folder + "device/vendor"] = number;
  std::snprintf(number, sizeof number, "0x%04x", info.device_id & 0xffff);
  (*tree)[folder + "device/device"] = number;
  (*tree)[folder + "device/numa_node"] = "-1";
  const std::string verbs = "/infiniband_verbs/" + std::string(device.abi.dev_name) + "/";
  (*tree)[verbs + "ibdev"] = device.abi.name;
  (*tree)[verbs + "abi_version"] = "1";
  (*tree)["/infiniband_verbs/abi_version"] = "6";
}

bool MakeFolder(const std::string& path) {
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

bool Write(const std::string& root, const Tree& tree) {
  if (!MakeFolder(root)) return false;
  for (const auto& [path, content] : tree) {
    for (std::size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1)) {
      if (!MakeFolder(root + path.substr(0, slash))) return false;
    }
    if (path.back() == '/') continue;
    const int fd = open((root + path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    const std::string line = content + "\n";
    const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    close(fd);
    if (!written) return false;
  }
  return true;
}

// The names that are tried in one place. Another user may have taken some: anybody may in /tmp, and the users
// of two user namespaces may have the same number.
constexpr int kNames = 16;

bool OnlyOursToWrite(const std::string& folder) {
  struct stat found;
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & 022) == 0;
}

// A folder that only this user can write to. Empty: there is none.
std::string OwnFolder() {
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  const char* temporary = getenv("TMPDIR");
  for (const char* parent : {runtime, temporary, "/tmp"}) {
    if (parent == nullptr || parent[0] != '/') continue;
    const std::string first = std::string(parent) + "/ndbroker-sysfs-" + std::to_string(geteuid());
    for (int i = 0; i < kNames; ++i) {
      const std::string folder = i == 0 ? first : first + "." + std::to_string(i);
      if (!MakeFolder(folder)) break;
      if (OnlyOursToWrite(folder)) return folder;
    }
  }
  std::fputs(
      "ndbroker: this program finds no files about devices: no folder for them can be made in "
      "$XDG_RUNTIME_DIR, $TMPDIR or /tmp; set TMPDIR to a folder that this user may write to\n",
      stderr);
  return {};
}

// Equal trees have one folder, which is complete as soon as it has its name.
std::string Publish(const Tree& tree) {
  const std::string parent = OwnFolder();
  if (parent.empty()) return {};
  std::string all;
  for (const auto& [path, content] : tree) all += path + '\0' + content + '\0';
  char name[32];
  std::snprintf(name, sizeof name, "/%016zx", std::hash<std::string>()(all));
  const std::string root = parent + name;
  struct stat found;
  if (stat(root.c_str(), &found) == 0) return root;
  const std::string draft = root + "." + std::to_string(getpid());
  if (!Write(draft, tree)) return {};
  // Another process may have been first; its folder is as good.
  if (rename(draft.c_str(), root.c_str()) != 0 && stat(root.c_str(), &found) != 0) return {};
  return root;
}

// Where the files are. Empty: there are none, because there is no broker or no folder for them.
const std::string& Root() {
  static auto* mutex = new std::mutex;
  static auto* root = new std::string;
  static bool tried = false;
  std::lock_guard lock(*mutex);
  if (tried) return *root;
  const auto* devices = Devices();
  if (devices == nullptr || devices->empty()) return *root;
  Tree tree;
  for (const Device* device : *devices) AddDevice(*device, &tree);
  tried = true;
  *root = Publish(tree);
  return *root;
}

// Whether the class, or one of our devices in it, is named.
bool IsOurs(std::string_view rest) {
  const std::size_t name = rest.find('/', 1);
  if (name == rest.npos || name + 1 == rest.size()) return true;
  const std::string_view device = rest.substr(name + 1, rest.find('/', name + 1) - name - 1);
  const auto* devices = Devices();
  if (devices == nullptr) return false;
  for (const Device* one : *devices) {
    if (device == one->abi.name || device == one->abi.dev_name) return true;
  }
  return device == "abi_version";
}

}  // namespace

void RealPath::Look() {
  const std::string_view path = path_;
  if (path.starts_with(kNodes)) {
    const auto* devices = Devices();
    for (std::size_t i = 0; devices != nullptr && i < devices->size(); ++i) {
      // A character device that anybody may open.
      if (path.substr(std::strlen("/dev/infiniband/")) == (*devices)[i]->abi.dev_name) path_ = "/dev/null";
    }
    return;
  }
  if (!path.starts_with(kClasses)) return;
  const std::string_view rest = path.substr(std::strlen("/sys/class"));
  const bool is_class = rest == "/infiniband" || rest == "/infiniband_verbs" ||
                        rest.starts_with("/infiniband/") || rest.starts_with("/infiniband_verbs/");
  // Our devices are the only ones that the program sees.
  if (!is_class || !IsOurs(rest) || rest.find("/..") != rest.npos) return;
  const std::string& root = Root();
  if (root.empty() || root.size() + rest.size() >= elsewhere_.size()) return;
  std::memcpy(elsewhere_.data(), root.data(), root.size());
  std::memcpy(elsewhere_.data() + root.size(), rest.data(), rest.size());
  elsewhere_[root.size() + rest.size()] = 0;
  path_ = elsewhere_.data();
}

}  // namespace nd::verbs_lib
