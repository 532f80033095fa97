// SPDX-License-Identifier: Apache-2.0
// The resources of each user (uid). A charge is a token whose destructor returns it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
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

// The limit of `resource` in `limits`, if any.
std::optional<std::uint32_t> LimitOf(const Limits& limits, Resource resource);

class Quota {
 public:
  using Usage = std::array<std::uint32_t, kResources>;

  // One unit of one resource, charged to one uid. Must not outlive its Quota.
  class Token {
   public:
    Token() = default;
    Token(Token&& other) noexcept
        : quota_(std::exchange(other.quota_, nullptr)),
          uid_(other.uid_),
          resource_(other.resource_),
          spare_(other.spare_) {}
    Token& operator=(Token&& other) noexcept {
      if (this != &other) {
        Release();
        quota_ = std::exchange(other.quota_, nullptr);
        uid_ = other.uid_;
        resource_ = other.resource_;
        spare_ = other.spare_;
      }
      return *this;
    }
    ~Token() { Release(); }
    void Release();
    // The spare has become an object.
    void Use();
    explicit operator bool() const { return quota_ != nullptr; }
    std::uint32_t uid() const { return uid_; }
    Resource resource() const { return resource_; }
    bool spare() const { return spare_; }

   private:
    friend class Quota;
    Token(Quota* quota, std::uint32_t uid, Resource resource, bool spare)
        : quota_(quota), uid_(uid), resource_(resource), spare_(spare) {}
    Quota* quota_ = nullptr;
    std::uint32_t uid_ = 0;
    Resource resource_{};
    bool spare_ = false;  // Of an object that was offered and does not exist yet (spares.h).
  };

  // Bytes kept for one uid. Must not outlive its Quota.
  class Bytes {
   public:
    Bytes() = default;
    Bytes(Bytes&& other) noexcept
        : quota_(std::exchange(other.quota_, nullptr)),
          uid_(other.uid_),
          held_(std::exchange(other.held_, 0)) {}
    Bytes& operator=(Bytes&&) = delete;
    ~Bytes() {
      if (quota_ != nullptr) Hold(quota_, uid_, 0);
    }
    // Sets the number of bytes. Quota and uid must not change.
    void Hold(Quota* quota, std::uint32_t uid, std::uint64_t bytes);
    std::uint64_t held() const { return held_; }

   private:
    Quota* quota_ = nullptr;
    std::uint32_t uid_ = 0;
    std::uint64_t held_ = 0;
  };
  // The limit of completion bytes for all sessions of a user.
  static constexpr std::uint64_t kBytesPerUser = 8 * 1024 * 1024;
  std::uint64_t BytesOf(std::uint32_t uid) const;
  // The limit of pending operations for all sessions of a user.
  static constexpr std::uint32_t kOperationsPerUser = 262144;
  // Returns the new number.
  std::uint32_t AddOperation(std::uint32_t uid) { return ++LoadOf(uid).operations; }
  void RemoveOperation(std::uint32_t uid);
  // A session of the user has ended; forgets a user without operations and bytes.
  void ForgetOperations(std::uint32_t uid) { ForgetIdle(uid); }
  std::uint32_t OperationsOf(std::uint32_t uid) const;
  std::uint64_t FreeBytes(std::uint32_t uid) const {
    const std::uint64_t held = BytesOf(uid);
    return held < kBytesPerUser ? kBytesPerUser - held : 0;
  }

  Quota() = default;
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // When objects and spares together reach `limit` it returns no value, sets *why, if given, to
  // INSUFFICIENT_RESOURCES, and changes nothing else.
  std::optional<Token> Charge(std::uint32_t uid, Resource resource, std::optional<std::uint32_t> limit,
                              Status* why = nullptr, bool spare = false);

  // The users with resources, without spares.
  const absl::btree_map<std::uint32_t, Usage>& usage() const { return usage_; }
  // The same for spares.
  const absl::btree_map<std::uint32_t, Usage>& spares() const { return spares_; }
  std::uint32_t SparesOf(std::uint32_t uid, Resource resource) const {
    return CountOf(spares_, uid, resource);
  }

 private:
  using Users = absl::btree_map<std::uint32_t, Usage>;
  static std::uint32_t CountOf(const Users& users, std::uint32_t uid, Resource resource);
  static void Remove(Users& users, std::uint32_t uid, Resource resource);

  Users usage_, spares_;
  // What changes with each operation of a user.
  struct Load {
    std::uint64_t bytes = 0;
    std::uint32_t operations = 0;
  };
  Load& LoadOf(std::uint32_t uid);
  const Load* FindLoad(std::uint32_t uid) const;
  void ForgetIdle(std::uint32_t uid);

  std::map<std::uint32_t, Load> loads_;
  // The one that was used last; null: none.
  mutable const std::pair<const std::uint32_t, Load>* latest_ = nullptr;
};

}  // namespace nd::core
