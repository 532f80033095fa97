// SPDX-License-Identifier: Apache-2.0
#include "client-lib/core/fork_guard.h"

#include <atomic>

namespace nd::client {
namespace {

std::atomic<const ForkMark*> first_use{nullptr};

struct Leaked {
  std::shared_ptr<const void> object;
  Leaked* next;
};
// Reachable, so that tools do not report it.
std::atomic<Leaked*> leaked{nullptr};

}  // namespace

void UseUnforkable() {
  if (first_use.load() != nullptr) return;
  auto mark = std::make_unique<const ForkMark>();
  const ForkMark* none = nullptr;
  if (first_use.compare_exchange_strong(none, mark.get())) static_cast<void>(mark.release());
}

bool ForkedAfterUse() {
  const ForkMark* const mark = first_use.load();
  return mark != nullptr && mark->InChild();
}

void Leak(std::shared_ptr<const void> object) {
  auto* const entry = new Leaked{std::move(object), leaked.load()};
  while (!leaked.compare_exchange_weak(entry->next, entry)) {
  }
}

}  // namespace nd::client
