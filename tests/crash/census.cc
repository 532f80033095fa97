// SPDX-License-Identifier: Apache-2.0
// Reads /proc; a process that ends meanwhile has an empty census.
#include "tests/crash/census.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace nd::crash {
namespace {

namespace fs = std::filesystem;

// The sockets of the network namespace of a process, by inode: "unix admin.sock", "tcp", "netlink".
std::map<std::string, std::string> SocketsOf(const fs::path& process) {
  std::map<std::string, std::string> kinds;
  static constexpr struct {
    const char* table;
    int inode;  // The column.
  } kTables[] = {{"unix", 7}, {"tcp", 10}, {"netlink", 10}};
  for (const auto& [table, inode] : kTables) {
    std::ifstream file(process / "net" / table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string word;
      for (int i = 0; i < inode; ++i) words >> word;
      std::string path;
      words >> path;
      kinds[word] = std::string(table);
      if (std::strcmp(table, "unix") == 0 && !path.empty())
        kinds[word] += " " + fs::path(path).filename().string();
    }
  }
  return kinds;
}

// "/memfd:name (deleted)" -> "memfd:name".
std::string KindOf(std::string target) {
  if (target.rfind("pipe:", 0) == 0) return "pipe";
  if (target.rfind("/memfd:", 0) == 0) return target.substr(1, target.find(" (deleted)") - 1);
  return target;
}

bool IsOfGrpc(const std::string& thread) {
  // Truncated as the kernel does.
  for (const char* name : {"default-executo", "resolver-execut", "grpc_global_tim", "event_engine",
                           "timer_manager", "grpcpp_sync_ser", "nexting_thread"}) {
    if (thread == name) return true;
  }
  return false;
}

void Compare(const std::map<std::string, int>& before, const std::map<std::string, int>& after,
             const char* what, std::string* text) {
  std::map<std::string, int> delta = after;
  for (const auto& [kind, count] : before) delta[kind] -= count;
  for (const auto& [kind, count] : delta) {
    if (count == 0) continue;
    *text += (text->empty() ? "" : ", ") + std::string(count > 0 ? "+" : "") + std::to_string(count) + " " +
             what + " " + kind;
  }
}

}  // namespace

Census Take(pid_t pid) {
  Census census;
  const fs::path root = "/proc/" + std::to_string(pid);
  const std::map<std::string, std::string> sockets = SocketsOf(root);
  std::error_code error;
  for (fs::directory_iterator it(root / "fd", error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(it->path(), gone).string();
    if (gone) continue;
    const std::string inode = target.rfind("socket:[", 0) == 0 ? target.substr(8, target.size() - 9) : "";
    const auto known = sockets.find(inode);
    if (inode.empty()) {
      ++census.descriptors[KindOf(target)];
    } else {
      ++census.descriptors["socket" + (known == sockets.end() ? "" : " " + known->second)];
    }
  }
  error.clear();
  for (fs::directory_iterator it(root / "task", error), end; !error && it != end; it.increment(error)) {
    std::ifstream file(it->path() / "comm");
    std::string name;
    if (std::getline(file, name) && !IsOfGrpc(name)) ++census.threads[name];
  }
  std::ifstream maps(root / "maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find("/memfd:");
    if (at != std::string::npos) ++census.mappings[KindOf(line.substr(at))];
  }
  return census;
}

std::string Difference(const Census& before, const Census& after) {
  std::string text;
  Compare(before.descriptors, after.descriptors, "descriptor", &text);
  Compare(before.mappings, after.mappings, "mapping", &text);
  Compare(before.threads, after.threads, "thread", &text);
  return text;
}

std::string StateOf(pid_t pid) {
  std::string text = "process " + std::to_string(pid) + "\n";
  std::array<char, 4096> part;
  // The stacks if a debugger is installed, otherwise the kernel function in which each thread waits.
  const std::string number = std::to_string(pid);
  const std::string command = "gdb -p " + number +
                              " -batch -ex 'thread apply all bt 12' 2>/dev/null | "
                              "grep -E '^(Thread|#)' || cat /proc/" +
                              number + "/task/*/{comm,wchan,stack}";
  std::FILE* pipe = popen(("bash -c \"" + command + "\" 2>&1").c_str(), "re");
  if (pipe == nullptr) return text;
  std::size_t n;
  while ((n = fread(part.data(), 1, part.size(), pipe)) > 0) text.append(part.data(), n);
  pclose(pipe);
  return text;
}

}  // namespace nd::crash
