// SPDX-License-Identifier: Apache-2.0
#include "base/os/object_win.h"
#include "provider/soft/qp/testing_os.h"

namespace nd::provider::soft {

int CurrentProcessor() {
  return static_cast<int>(::GetCurrentProcessorNumber());
}

bool PinThisThread(int processor) {
  return ::SetThreadAffinityMask(::GetCurrentThread(), DWORD_PTR{1} << processor) != 0;
}

// By the object of the descriptor.
std::multiset<std::pair<std::uint64_t, std::uint64_t>> OpenDescriptors() {
  std::multiset<std::pair<std::uint64_t, std::uint64_t>> open;
  for (int fd = 0; fd < 4096; ++fd) {
    if (const auto object = os::FindObject(fd))
      open.emplace(0, reinterpret_cast<std::uintptr_t>(object.get()));
  }
  return open;
}

}  // namespace nd::provider::soft
