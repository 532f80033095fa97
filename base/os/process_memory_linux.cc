// SPDX-License-Identifier: Apache-2.0
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/os/process_memory.h"

namespace nd::os {
namespace {

struct Vectors {
  std::array<iovec, kMostPieces> here, there;
};

template <typename Call>
std::size_t Copy(Call call, std::uint32_t process, std::span<const PieceHere> here,
                 std::span<const PieceThere> there) {
  if (here.size() > kMostPieces || there.size() > kMostPieces) return 0;
  Vectors vectors;
  for (std::size_t i = 0; i < here.size(); ++i) vectors.here[i] = {here[i].address, here[i].length};
  for (std::size_t i = 0; i < there.size(); ++i) {
    vectors.there[i] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(there[i].address)),
                        there[i].length};
  }
  const ssize_t copied = call(static_cast<pid_t>(process), vectors.here.data(), here.size(),
                              vectors.there.data(), there.size(), 0);
  return copied < 0 ? 0 : static_cast<std::size_t>(copied);
}

}  // namespace

bool HasProcessMemory() {
  return true;
}

bool IsOpenTo(std::uint32_t process) {
  struct stat status {};
  return ::stat(("/proc/" + std::to_string(process)).c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
         ::getuid() == ::geteuid() && ::prctl(PR_GET_DUMPABLE) == 1;
}

std::size_t ReadFromProcess(std::uint32_t process, std::span<const PieceHere> to,
                            std::span<const PieceThere> from) {
  return Copy(process_vm_readv, process, to, from);
}

std::size_t WriteToProcess(std::uint32_t process, std::span<const PieceHere> from,
                           std::span<const PieceThere> to) {
  return Copy(process_vm_writev, process, from, to);
}

}  // namespace nd::os
