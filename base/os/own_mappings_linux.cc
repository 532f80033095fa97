// SPDX-License-Identifier: Apache-2.0
#include "base/os/own_mappings_linux.h"

#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace nd::os {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void ForEachMapping(const std::function<bool(const OwnMapping&)>& visit) {
  const std::unique_ptr<std::FILE, CloseFile> maps(std::fopen("/proc/self/maps", "re"));
  char* line = nullptr;
  std::size_t room = 0;
  for (bool more = true; more && maps && ::getline(&line, &room, maps.get()) > 0;) {
    OwnMapping mapping;
    char rights[5] = "";
    std::uint64_t file = 0;
    unsigned major_number = 0, minor_number = 0;
    int name = 0;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &mapping.begin,
                    &mapping.end, rights, &mapping.offset, &major_number, &minor_number, &file, &name) != 7) {
      continue;
    }
    mapping.file = MemoryNumber(::makedev(major_number, minor_number), file);
    mapping.shared = rights[3] == 's';
    mapping.memfd = std::strncmp(line + name, "/memfd:", 7) == 0;
    more = visit(mapping);
  }
  std::free(line);
}

}  // namespace nd::os
