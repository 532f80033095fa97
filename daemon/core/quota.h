// SPDX-License-Identifier: Apache-2.0
// What each user (uid) holds. A charge is a token: it is given back when the token dies, on every path.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "daemon/core/policy.h"

namespace nd::core {

enum class Resource : std::uint8_t {
  kSessions,
  kConnectors,
  kListeners,
  kSharedEndpoints,
  kQueuePairs,
  kPorts
};
inline constexpr std::size_t kResources = 6;
const char* Name(Resource resource);

// The bound that `limits` puts on `resource`, if any.
std::optional<std::uint32_t> LimitOf(const Limits& limits, Resource resource);

class Quota {
 public:
  using Usage = std::array<std::uint32_t, kResources>;

  // One unit of one resource, charged to one uid. Must not outlive its Quota.
  class Token {
   public:
    Token() = default;
    Token(Token&& other) noexcept
        : quota_(std::exchange(other.quota_, nullptr)), uid_(other.uid_), resource_(other.resource_) {}
    Token& operator=(Token&& other) noexcept {
      if (this != &other) {
        Release();
        quota_ = std::exchange(other.quota_, nullptr);
        uid_ = other.uid_;
        resource_ = other.resource_;
      }
      return *this;
    }
    ~Token() { Release(); }
    void Release();
    explicit operator bool() const { return quota_ != nullptr; }
    std::uint32_t uid() const { return uid_; }
    Resource resource() const { return resource_; }

   private:
    friend class Quota;
    Token(Quota* quota, std::uint32_t uid, Resource resource)
        : quota_(quota), uid_(uid), resource_(resource) {}
    Quota* quota_ = nullptr;
    std::uint32_t uid_ = 0;
    Resource resource_{};
  };

  Quota() = default;
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // Empty when `limit` is reached; nothing changed then.
  std::optional<Token> Charge(std::uint32_t uid, Resource resource, std::optional<std::uint32_t> limit);

  // Users that hold something.
  const absl::btree_map<std::uint32_t, Usage>& usage() const { return usage_; }

 private:
  absl::btree_map<std::uint32_t, Usage> usage_;
};

}  // namespace nd::core
