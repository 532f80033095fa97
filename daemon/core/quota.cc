// SPDX-License-Identifier: Apache-2.0
// Counts usage. Limits are decided elsewhere (policy.h), so that usage can be compared with the objects.
#include "daemon/core/quota.h"

#include <array>
#include <string>

#include "daemon/core/check.h"

namespace nd::core {

const char* Name(Resource resource) {
  static constexpr std::array<const char*, kResources> kNames = {
      "sessions", "connectors", "listeners", "shared endpoints", "queue pairs", "ports"};
  return kNames[static_cast<std::size_t>(resource)];
}

std::optional<std::uint32_t> LimitOf(const Limits& limits, Resource resource) {
  static constexpr std::array<std::optional<std::uint32_t> Limits::*, kResources> kLimits = {
      &Limits::sessions,         &Limits::connectors,  &Limits::listeners,
      &Limits::shared_endpoints, &Limits::queue_pairs, &Limits::ports};
  return limits.*kLimits[static_cast<std::size_t>(resource)];
}

std::optional<Quota::Token> Quota::Charge(std::uint32_t uid, Resource resource,
                                          std::optional<std::uint32_t> limit, Status* why, bool spare) {
  if (limit && CountOf(usage_, uid, resource) + CountOf(spares_, uid, resource) >= *limit) {
    if (why != nullptr) {
      *why = Status(StatusCode::kInsufficientResources,
                    "User " + std::to_string(uid) + " may hold " + std::to_string(*limit) + " " +
                        Name(resource) + " and holds them all.",
                    Detail::kQuota);
    }
    return std::nullopt;
  }
  ++(spare ? spares_ : usage_)[uid][static_cast<std::size_t>(resource)];
  return Token(this, uid, resource, spare);
}

std::uint32_t Quota::CountOf(const Users& users, std::uint32_t uid, Resource resource) {
  const auto found = users.find(uid);
  return found == users.end() ? 0 : found->second[static_cast<std::size_t>(resource)];
}

void Quota::Remove(Users& users, std::uint32_t uid, Resource resource) {
  const auto found = users.find(uid);
  ND_CORE_CHECK(found != users.end());
  std::uint32_t& held = found->second[static_cast<std::size_t>(resource)];
  ND_CORE_CHECK(held > 0);
  --held;
  for (const std::uint32_t count : found->second) {
    if (count != 0) return;
  }
  users.erase(found);
}

// The operations of one user follow each other.
const Quota::Load* Quota::FindLoad(std::uint32_t uid) const {
  if (latest_ != nullptr && latest_->first == uid) return &latest_->second;
  const auto found = loads_.find(uid);
  if (found == loads_.end()) return nullptr;
  latest_ = &*found;
  return &found->second;
}

Quota::Load& Quota::LoadOf(std::uint32_t uid) {
  if (const Load* const load = FindLoad(uid)) return const_cast<Load&>(*load);
  const auto added = loads_.try_emplace(uid).first;
  latest_ = &*added;
  return added->second;
}

void Quota::ForgetIdle(std::uint32_t uid) {
  const Load* const load = FindLoad(uid);
  if (load == nullptr || load->bytes != 0 || load->operations != 0) return;
  latest_ = nullptr;
  loads_.erase(uid);
}

void Quota::Bytes::Hold(Quota* quota, std::uint32_t uid, std::uint64_t bytes) {
  if (bytes == held_) return;
  ND_CORE_CHECK(quota_ == nullptr || (quota_ == quota && uid_ == uid));
  quota_ = quota;
  uid_ = uid;
  std::uint64_t& all = quota->LoadOf(uid).bytes;
  ND_CORE_CHECK(all >= held_);
  all = all - held_ + bytes;
  held_ = bytes;
  if (bytes == 0) quota->ForgetIdle(uid);
}

std::uint64_t Quota::BytesOf(std::uint32_t uid) const {
  const Load* const load = FindLoad(uid);
  return load == nullptr ? 0 : load->bytes;
}

void Quota::RemoveOperation(std::uint32_t uid) {
  Load& load = LoadOf(uid);
  ND_CORE_CHECK(load.operations > 0);
  --load.operations;
}

std::uint32_t Quota::OperationsOf(std::uint32_t uid) const {
  const Load* const load = FindLoad(uid);
  return load == nullptr ? 0 : load->operations;
}

void Quota::Token::Release() {
  Quota* const quota = std::exchange(quota_, nullptr);
  if (quota != nullptr) Remove(spare_ ? quota->spares_ : quota->usage_, uid_, resource_);
}

void Quota::Token::Use() {
  ND_CORE_CHECK(quota_ != nullptr && spare_);
  Remove(quota_->spares_, uid_, resource_);
  ++quota_->usage_[uid_][static_cast<std::size_t>(resource_)];
  spare_ = false;
}

}  // namespace nd::core
