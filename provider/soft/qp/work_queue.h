// SPDX-License-Identifier: Apache-2.0
// Posted requests: fixed rings, allocated when the queue is made, so that posting never allocates.
//
// Thread rule: under the lock of the owner of the queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "nd/types.h"
#include "provider/soft/limits.h"
#include "provider/soft/qp/memory.h"

namespace nd::provider::soft {

enum class Op : std::uint8_t {
  kSend,
  kSendInvalidate,
  kSendImmediate,
  kWrite,
  kWriteImmediate,
  kRead,
  kFetchAdd,
  kCompareSwap,
  kBind,
  kInvalidate,
};

constexpr bool IsSend(Op op) {
  return op <= Op::kSendImmediate;
}
constexpr bool IsWrite(Op op) {
  return op == Op::kWrite || op == Op::kWriteImmediate;
}
constexpr bool IsAtomic(Op op) {
  return op == Op::kFetchAdd || op == Op::kCompareSwap;
}
// Only peers with kHandOffExtensions know it.
constexpr bool IsExtension(Op op) {
  return op == Op::kSendImmediate || op == Op::kWriteImmediate || IsAtomic(op);
}
// The peer answers it, so it counts against the read limit.
constexpr bool IsAnswered(Op op) {
  return op == Op::kRead || IsAtomic(op);
}

constexpr RequestType TypeOf(Op op) {
  switch (op) {
    case Op::kSend:
    case Op::kSendInvalidate:
    case Op::kSendImmediate:
      return RequestType::kSend;
    case Op::kWrite:
    case Op::kWriteImmediate:
      return RequestType::kWrite;
    case Op::kRead:
      return RequestType::kRead;
    case Op::kFetchAdd:
      return RequestType::kFetchAdd;
    case Op::kCompareSwap:
      return RequestType::kCompareSwap;
    case Op::kBind:
      return RequestType::kBind;
    case Op::kInvalidate:
      return RequestType::kInvalidate;
  }
  return RequestType::kSend;
}

// Copies at most kMostWithoutCall bytes.
inline constexpr std::size_t kMostWithoutCall = 32;
[[gnu::always_inline]] inline void CopySmall(std::byte* to, const std::byte* from, std::size_t size) {
  struct Words {
    std::uint64_t first, second;
  };
  const auto copy = [&]<typename Word>(Word word) {
    // The two may overlap. All is read first.
    Word last;
    std::memcpy(&word, from, sizeof word);
    std::memcpy(&last, from + size - sizeof last, sizeof last);
    std::memcpy(to, &word, sizeof word);
    std::memcpy(to + size - sizeof last, &last, sizeof last);
  };
  if (size >= 16) return copy(Words{});
  if (size >= 8) return copy(std::uint64_t{});
  if (size >= 4) return copy(std::uint32_t{});
  for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
}

// A posted scatter/gather list.
struct SgeList {
  std::uint32_t count = 0;
  std::uint32_t length = 0;  // Sum of the lengths.
  std::array<Sge, kMaxSge> sges;

  void AssignOne(const Sge& from) {
    count = 1;
    length = from.length;
    // Field by field: the caller has just written them so, and one wide load would wait for its stores.
    sges[0].address = from.address;
    sges[0].length = from.length;
    sges[0].local_token = from.local_token;
  }
  void Assign(std::span<const Sge> from, std::uint32_t total) {
    count = static_cast<std::uint32_t>(from.size());
    length = total;
    if (!from.empty()) std::memcpy(sges.data(), from.data(), from.size_bytes());
  }
};

// Walks over a scatter/gather list piece by piece.
class SgeCursor {
 public:
  SgeCursor() = default;
  explicit SgeCursor(const SgeList& list) : list_(&list) {}

  // Returns the next piece of at most `limit` bytes; empty at the end. *sge: its element.
  std::span<std::byte> Next(std::size_t limit, const Sge** sge = nullptr) {
    while (index_ < list_->count && offset_ == list_->sges[index_].length) {
      ++index_;
      offset_ = 0;
    }
    if (index_ >= list_->count || limit == 0) return {};
    const Sge& current = list_->sges[index_];
    const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(limit, current.length - offset_));
    std::span<std::byte> piece(static_cast<std::byte*>(current.address) + offset_, size);
    offset_ += size;
    if (sge != nullptr) *sge = &current;
    return piece;
  }

 private:
  const SgeList* list_ = nullptr;
  std::uint32_t index_ = 0, offset_ = 0;
};

struct ReceiveRequest {
  void* context = nullptr;
  SgeList list;
};

// Fields that only some operations have.
struct Operands {
  std::uint32_t immediate = 0;
  std::uint64_t value = 0;    // To add, or to swap in.
  std::uint64_t compare = 0;  // Of CompareSwap.
};

// The bind of a verbs window.
struct VerbsBind {
  std::shared_ptr<SoftRegion> region;
  WindowBinding binding;
};

// The first cache line is all that a request of one element uses.
struct alignas(64) InitiatorRequest {
  void* context = nullptr;
  Op op = Op::kSend;
  bool started = false;
  bool done = false;
  bool is_inline = false;
  bool no_receive = false;  // The request failed because the peer posted no receive for it,
  bool own_memory = false;  // or because its own memory cannot be used.
  StatusCode status = StatusCode::kSuccess;
  std::uint32_t flags = 0;
  std::uint32_t token = 0;  // Remote STag; of a Bind, the new STag; of an Invalidate, that of the binding.
  std::uint64_t remote_address = 0;
  SgeList list;
  std::uint64_t mark = 0;              // For the transport.
  std::byte* inline_data = nullptr;    // The inline buffer of this slot.
  std::unique_ptr<VerbsBind> bind;     // Of a verbs window.
  std::shared_ptr<SoftWindow> window;  // Bind, Invalidate; null: the window that is bound with `token`.
  Operands operands;                   // Of requests with immediate data and of atomic operations.

  // A new request in this place. Its list, and what only some operations have, are the caller's.
  void Begin(Op new_op, void* new_context, std::uint32_t new_flags, std::uint64_t address,
             std::uint32_t new_token) {
    context = new_context;
    op = new_op;
    started = done = is_inline = no_receive = own_memory = false;
    status = StatusCode::kSuccess;
    flags = new_flags;
    token = new_token;
    remote_address = address;
  }
};
static_assert(offsetof(InitiatorRequest, list) + offsetof(SgeList, sges) + sizeof(Sge) == 64);

// Positions only grow: [tail, head) is posted, [next, head) is not started.
template <typename T>
class WorkRing {
 public:
  explicit WorkRing(std::uint32_t depth) : depth_(depth) {
    std::uint32_t slots = 1;
    while (slots < depth) slots *= 2;
    mask_ = slots - 1;
    slots_.resize(slots);
  }

  bool full() const { return head - tail >= depth_; }
  bool half_full() const { return head - tail >= (depth_ + 1) / 2; }
  bool empty() const { return head == tail; }
  T& at(std::uint64_t position) { return slots_[position & mask_]; }
  const T& at(std::uint64_t position) const { return slots_[position & mask_]; }
  std::size_t slots() const { return slots_.size(); }

  std::uint64_t tail = 0, next = 0, head = 0;

 private:
  std::uint32_t depth_;
  std::uint64_t mask_ = 0;
  std::vector<T> slots_;
};

}  // namespace nd::provider::soft
