// SPDX-License-Identifier: Apache-2.0
// The sessions of clients: their pending operations, the completions that are kept for repeats, and the order
// in which ended sessions are reclaimed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "daemon/core/action.h"
#include "daemon/core/op_log.h"
#include "daemon/core/quota.h"
#include "daemon/core/spares.h"

namespace nd::core {

// A pending operation. Exactly one place holds it; Sessions::End empties that place.
struct Pending {
  OpId op_id = 0;
  std::uint64_t sequence = 0;  // Order of submission over all sessions.
  explicit operator bool() const { return op_id != 0; }
};

// When each pending operation was submitted. Most operations end before the next one is submitted, so the
// last place is the one that is removed.
class Submissions {
 public:
  // `sequence` is larger than those before.
  void Add(std::uint64_t sequence, Time when) { places_.push_back({sequence, when}); }
  // Returns false when there is none.
  bool Remove(std::uint64_t sequence);
  std::size_t size() const { return places_.size() - removed_; }
  std::optional<Time> Oldest() const;

 private:
  static constexpr std::size_t kKept = 1024;  // Without operations it keeps memory for so many.
  struct Place {
    std::uint64_t sequence;
    Time when;
    bool removed = false;
  };
  std::vector<Place> places_;  // In order. At most half of them are removed, and the last one is not.
  std::size_t removed_ = 0;
};

enum class ObjectKind : std::uint8_t { kAdapter, kQueuePair, kConnector, kListener, kSharedEndpoint };
inline constexpr std::size_t kObjectKinds = 5;

struct Session {
  SessionId id{};
  std::shared_ptr<const Identity> identity;  // Records of connections share it.
  const Identity& who() const { return *identity; }
  Time opened{};
  bool ending = false;  // EndSession was sent; no operation is accepted.
  bool closed = false;  // SessionClosed arrived: it gets no messages, and its objects are being reclaimed.
  bool killed = false;  // By the administrator.
  Status ended_because;
  Quota::Token charge;
  using Objects = absl::btree_map<std::uint64_t, Handle>;  // By order of creation.
  std::array<Objects, kObjectKinds> objects;
  Objects& Of(ObjectKind kind) { return objects[static_cast<std::size_t>(kind)]; }
  const Objects& Of(ObjectKind kind) const { return objects[static_cast<std::size_t>(kind)]; }
  std::uint32_t Count(ObjectKind kind) const { return static_cast<std::uint32_t>(Of(kind).size()); }
  absl::btree_set<std::uint32_t> free_slots;  // Counter slots below next_slot.
  std::uint32_t next_slot = 0;
  std::uint32_t NextSlot() const { return free_slots.empty() ? next_slot : *free_slots.begin(); }
  std::uint32_t TakeSlot() {
    return free_slots.empty() ? next_slot++ : free_slots.extract(free_slots.begin()).value();
  }
  std::array<SparesOfKind, kSpareKinds.size()> spares;
  SparesOfKind& SparesOf(SpareKind kind) { return spares[static_cast<std::size_t>(kind)]; }
  absl::btree_map<OpId, Handle> made_by;  // Live objects that were made ahead, which operations may name.

  const OpLog& ops() const { return ops_; }
  std::uint64_t operations() const { return operations_; }               // Since it was opened.
  std::uint64_t remembered_bytes() const { return remembered_.held(); }  // Charged to the user for ops().

 private:
  friend class Sessions;
  OpLog ops_;
  Quota::Bytes remembered_;
  std::uint64_t operations_ = 0;
};

class Sessions {
 public:
  using Table = absl::btree_map<SessionId, Session>;

  // `quota` outlives this object.
  explicit Sessions(Quota& quota) : quota_(quota) {}

  // Adds a session whose id is not in use.
  Session& Add(SessionId id, const Identity& who, Time now);
  // Null: there is none.
  Session* Find(SessionId id);
  const Session* Find(SessionId id) const;
  // The session must exist.
  Session& At(SessionId id);
  const Session& At(SessionId id) const;
  const Table& all() const { return table_; }

  // ---- operations
  // Begins an operation with an id that the session has not used lately. Returns false when all sessions of
  // the user together have too many pending operations; the operation is pending nevertheless.
  bool Begin(Session& session, const Pending& pending, Time now);
  // Ends a pending operation and empties `pending`. The completion is kept for repeats.
  void End(Pending& pending, Session& session, const Complete& complete);
  // Operations of all sessions that have not completed.
  std::size_t pending() const { return submitted_.size(); }
  std::optional<Time> OldestPending() const { return submitted_.Oldest(); }
  // Completions that were not SUCCESS.
  const absl::btree_map<StatusCode, std::uint64_t>& failures() const { return failures_; }

  // ---- reclaiming
  // The client is gone. The session is the next to be reclaimed.
  void Close(Session& session, const Status& why);
  bool reclaiming() const { return !reclaim_line_.empty(); }
  // Returns the closed session that is next to be reclaimed, and removes it from the line; null when no
  // session is closed.
  Session* NextToReclaim();
  // It still has objects, so it goes to the end of the line.
  void ReclaimLater(const Session& session) { reclaim_line_.push_back(session.id); }
  // It has no objects and no pending operations any more.
  void Erase(const Session& session);
  const std::deque<SessionId>& reclaim_line() const { return reclaim_line_; }

 private:
  Quota& quota_;
  Table table_;
  // The session that was found last; null: none. Adding and erasing move the others in the table.
  mutable const Session* found_ = nullptr;
  std::deque<SessionId> reclaim_line_;  // Closed sessions; they take turns.
  Submissions submitted_;
  absl::btree_map<StatusCode, std::uint64_t> failures_;
};

}  // namespace nd::core
