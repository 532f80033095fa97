// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/lent_memory.h"

#include <dlfcn.h>

#include <optional>

#include "base/lent_memory.h"
#include "base/os/descriptor.h"
#include "verbs-lib/settings.h"
#include "verbs-lib/share_memory/offer.h"

namespace nd::verbs_lib {
namespace {

decltype(&ndbroker_memory_around) memory_around = nullptr;

std::optional<os::MemfdBehind> FindBlock(const void* address, std::size_t length) {
  void* begin = nullptr;
  std::size_t size = 0;
  UniqueFd fd(memory_around(address, length, &begin, &size));
  const auto number = os::NumberOf(fd.get());
  if (!fd || !number) return std::nullopt;
  os::MemfdBehind block;
  block.fd = std::move(fd);
  block.number = *number;
  block.begin = static_cast<std::byte*>(begin);
  block.size = size;
  block.writable = true;
  return block;
}

template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

bool Lend() {
  auto* const share = Find<decltype(ndbroker_share_memory)>("ndbroker_share_memory");
  memory_around = Find<decltype(ndbroker_memory_around)>("ndbroker_memory_around");
  if (share == nullptr || memory_around == nullptr) return false;
  SetMemoryLender(FindBlock);
  share(GetSettings().share_all);
  return true;
}

}  // namespace

void LendMemory() {
  static const bool lends = Lend();
  (void)lends;
}

}  // namespace nd::verbs_lib
