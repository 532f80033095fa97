// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/verbs_program.h"

namespace nd::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kLibrary[] = "libibverbs.so.1";
constexpr char kShareMemory[] = "libndbroker_share_memory.so";  // Beside it.
constexpr int kScriptDepth = 4;

std::string Joined(const std::string& first, const std::string& rest) {
  return rest.empty() ? first : first + ":" + rest;
}

Failure Refuse(const std::string& path, const std::string& why) {
  return Error{Exit::kFailed,
               path + " " + why,
               "the loader ignores LD_PRELOAD for such a program, so it cannot use the broker",
               {}};
}

// The path of the loader that the program asks for; empty: none, so it is statically linked.
std::string LoaderOf(const std::string& file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof header) return {};
  std::memcpy(&header, file.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr part;
    if (at > file.size() || file.size() - at < sizeof part) return {};
    std::memcpy(&part, file.data() + at, sizeof part);
    if (part.p_type != PT_INTERP) continue;
    if (part.p_offset > file.size() || file.size() - part.p_offset < part.p_filesz) return {};
    return std::string(file.data() + part.p_offset, part.p_filesz).c_str();
  }
  return {};
}

Failure CheckRights(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid())
    return Refuse(path, "runs as another user (set-user-ID)");
  if ((status.st_mode & S_ISGID) != 0 && status.st_gid != getegid())
    return Refuse(path, "runs as another group (set-group-ID)");
  if (geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return Refuse(path, "has file capabilities");
  return {};
}

Failure Check(const std::string& path, int depth) {
  if (Failure failure = CheckRights(path)) return failure;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return {};  // An unreadable file may still be executable.
  // The program headers follow the header of every program that a linker makes; large programs are not read
  // whole.
  std::string start(1 << 16, '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(stream.gcount()));
  if (start.starts_with("#!") && depth > 0) {
    std::istringstream line(start.substr(2, start.find('\n')));
    std::string interpreter;
    line >> interpreter;
    return Check(interpreter, depth - 1);
  }
  if (!start.starts_with(ELFMAG)) return {};
  if (start.size() > EI_CLASS && start[EI_CLASS] != ELFCLASS64) return Refuse(path, "is a 32-bit program");
  const std::string loader = LoaderOf(start);
  if (loader.empty()) return Refuse(path, "is statically linked");
  if (loader.find("musl") != std::string::npos)
    return Refuse(path, "uses another C library (" + loader + ")");
  return {};
}

}  // namespace

Variables VerbsEnvironment(const VerbsOptions& options, const std::string& library,
                           const std::string& rsockets, const std::string& preload,
                           const std::string& library_path) {
  // A program that needs libibverbs.so.1 gets the preloaded library by its name; the path serves
  // dlopen("libibverbs.so").
  const std::string folder = fs::path(library).parent_path().string();
  std::string first = library;
  if (options.shared != SharedBuffers::kNone) first += ":" + folder + "/" + kShareMemory;
  if (options.sockets) first += ":" + rsockets;
  Variables variables{{"LD_PRELOAD", Joined(first, preload)},
                      {"LD_LIBRARY_PATH", Joined(folder, library_path)},
                      {"NDBROKER_VERBS_AS", options.as}};
  if (!options.adapter.empty()) variables.emplace_back("NDBROKER_VERBS_ADAPTER", options.adapter);
  if (options.spin) variables.emplace_back("NDBROKER_VERBS_SPIN", "1");
  if (options.shared == SharedBuffers::kAll) variables.emplace_back("NDBROKER_VERBS_SHARE_MEMORY", "all");
  if (!options.broker.empty()) variables.emplace_back("NDBROKER_DIR", options.broker);
  return variables;
}

Failure FindVerbsLibrary(std::string* path) {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  // The last folder is for Debian packages, whose programs are in /usr/lib/ndbroker/bin.
  for (const fs::path& folder : {here / "../lib/ndbroker/verbs",
                                 here / ".." / NDBROKER_LIBDIR / "ndbroker/verbs", here / "../verbs"}) {
    const fs::path file = folder / kLibrary;
    if (!fs::exists(file, error)) continue;
    *path = fs::weakly_canonical(folder).string() + "/" + kLibrary;
    return {};
  }
  return Error{Exit::kNotFound,
               "the library for verbs programs is not installed",
               "install the package ndbroker-verbs",
               {}};
}

Failure FindRsockets(std::string* path) {
  std::error_code error;
  for (const fs::path& folder :
       {fs::path("/usr/lib") / NDBROKER_ARCHITECTURE / "rsocket", fs::path("/usr/lib64/rsocket"),
        fs::path("/usr") / NDBROKER_LIBDIR / "rsocket", fs::path("/usr/lib/rsocket")}) {
    *path = (folder / "librspreload.so").string();
    if (fs::exists(*path, error)) return {};
  }
  return Error{Exit::kNotFound, "librspreload is not installed", "install librdmacm1 (Debian)", {}};
}

Failure FindProgram(const std::string& command, std::string* path) {
  std::vector<std::string> candidates;
  if (command.find('/') != std::string::npos) {
    candidates.push_back(command);
  } else {
    const char* search = std::getenv("PATH");
    std::istringstream folders(search == nullptr ? "/usr/bin:/bin" : search);
    for (std::string folder; std::getline(folders, folder, ':');) {
      candidates.push_back((folder.empty() ? "." : folder) + "/" + command);
    }
  }
  for (const std::string& candidate : candidates) {
    struct stat status {};
    if (access(candidate.c_str(), X_OK) != 0 || stat(candidate.c_str(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode)) continue;
    *path = candidate;
    return {};
  }
  return Error{Exit::kNotFound, "there is no program '" + command + "'", {}, {}};
}

Failure CheckProgram(const std::string& path) {
  return Check(path, kScriptDepth);
}

}  // namespace nd::cli
