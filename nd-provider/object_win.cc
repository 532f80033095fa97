// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/object_win.h"

#include <mutex>
#include <unordered_map>

namespace nd::spi {
namespace {

struct Entry {
  const GUID* kind;
  std::atomic<ULONG>* references;
};
struct List {
  std::mutex mutex;
  std::unordered_map<const IUnknown*, Entry> entries;
};
List& TheList() {
  static auto* const list = new List;  // Never destroyed: objects may outlive the end of main().
  return *list;
}

}  // namespace

void LivingObjects::Add(IUnknown* object, const GUID* kind, std::atomic<ULONG>* references) {
  List& list = TheList();
  std::lock_guard lock(list.mutex);
  list.entries.emplace(object, Entry{kind, references});
}

void LivingObjects::Remove(IUnknown* object) {
  List& list = TheList();
  std::lock_guard lock(list.mutex);
  list.entries.erase(object);
}

IUnknown* LivingObjects::Find(const IUnknown* object, const GUID* kind) {
  List& list = TheList();
  std::lock_guard lock(list.mutex);
  const auto found = list.entries.find(object);
  if (found == list.entries.end() || found->second.kind != kind) return nullptr;
  std::atomic<ULONG>& references = *found->second.references;
  ULONG count = references.load(std::memory_order_relaxed);
  while (count != 0) {
    if (references.compare_exchange_weak(count, count + 1)) return const_cast<IUnknown*>(object);
  }
  return nullptr;  // It is being destroyed, and waits for the lock to leave the list.
}

std::size_t LivingObjects::Count() {
  List& list = TheList();
  std::lock_guard lock(list.mutex);
  return list.entries.size();
}

}  // namespace nd::spi
