// SPDX-License-Identifier: Apache-2.0
// A hash table that is never iterated, because its order is not deterministic.
#include "daemon/core/tuple_table.h"

#include "daemon/core/check.h"

namespace nd::core {
namespace {
constexpr std::size_t Index(Role role) {
  return static_cast<std::size_t>(role);
}
constexpr Role Other(Role role) {
  return role == Role::kActive ? Role::kPassive : Role::kActive;
}
}  // namespace

TupleHolder TupleTable::Find(const TupleKey& key, Role role) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? TupleHolder{} : found->second.holders[Index(role)];
}

TupleHolder TupleTable::Sibling(const TupleKey& key, Role role) const {
  return Find(key, Other(role));
}

TupleHolder TupleTable::Conflict(const TupleKey& key, Role role, bool head_to_head) const {
  const TupleHolder same = Find(key, role);
  if (same.attempt != 0 || head_to_head) return same;
  return Sibling(key, role);
}

void TupleTable::Put(const TupleKey& key, Role role, const TupleHolder& holder) {
  ND_CORE_CHECK(holder.attempt != 0);
  TupleHolder& place = entries_[key].holders[Index(role)];
  if (place.attempt == 0) ++size_;
  place = holder;
}

void TupleTable::Erase(const TupleKey& key, Role role, std::uint64_t attempt) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  TupleHolder& place = found->second.holders[Index(role)];
  if (place.attempt == 0 || place.attempt != attempt) return;
  place = {};
  --size_;
  if (found->second.holders[Index(Other(role))].attempt == 0) entries_.erase(found);
}

}  // namespace nd::core
