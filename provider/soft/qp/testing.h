// SPDX-License-Identifier: Apache-2.0
// For tests: two queue pairs connected by a hand-over that the test makes, on either transport.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/memfd_beginning.h"
#include "base/os/accept.h"
#include "base/os/descriptor.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "provider/qp.h"
#include "provider/soft/limits.h"
#include "provider/soft/qp/soft_device.h"
#include "provider/soft/segment.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {

enum class Link { kShared, kSharedRingOnly, kIwarp, kIwarpForeign };
inline const char* NameOf(Link link) {
  constexpr const char* kNames[] = {"Shared", "SharedRingOnly", "Iwarp", "IwarpForeign"};
  return kNames[static_cast<int>(link)];
}

struct HandOffs {
  HandOff active, passive;
};

inline void ConnectedTcp(UniqueFd* a, UniqueFd* b) {
  const UniqueFd listener = os::ListenTcp(nd::Address::V4({127, 0, 0, 1}, 0), 1);
  ASSERT_TRUE(listener);
  const std::uint16_t port = os::LocalAddress(listener.get()).port();
  *a = os::ConnectTcp("127.0.0.1", port, SystemClock().Now() + std::chrono::seconds(20)).socket;
  ASSERT_TRUE(*a);
  os::Watched wait[] = {{listener.get()}};
  ASSERT_EQ(os::Wait(wait, std::chrono::seconds(20)), 1);
  *b = os::Accept(listener.get()).fd;
  ASSERT_TRUE(*b);
}

inline bool Readable(int fd, Duration patience = Duration::zero()) {
  os::Watched wait[] = {{fd}};
  return os::Wait(wait, patience) == 1;
}

inline HandOffs MakeHandOffs(Link link, std::uint32_t limit = 16) {
  HandOffs both;
  HandOffRecord record;
  if (link == Link::kShared || link == Link::kSharedRingOnly) {
    record = SharedRecord(kSegmentSize);
    record.flags = kHandOffConfirm | (link == Link::kShared ? kHandOffShareMemory : 0u);
    auto segment = CreateSealedMemfd("test-segment", kSegmentSize);
    EXPECT_TRUE(WriteBeginning(segment->get(), std::as_bytes(std::span(kBothAsleep))));
    UniqueFd a, b;
    EXPECT_TRUE(MakeSeqpacketPair(&a, &b).ok());
    both.active.fds.push_back(os::Duplicate(segment->get()));
    both.active.fds.push_back(std::move(a));
    both.passive.fds.push_back(std::move(segment).value());
    both.passive.fds.push_back(std::move(b));
  } else {
    record = IwarpRecord({.max_ulpdu = link == Link::kIwarpForeign ? 1460u - 6 : 0});
    record.flags = kHandOffCrc;
    if (link == Link::kIwarp) record.flags |= kHandOffConfirm;
    both.active.fds.resize(1);
    both.passive.fds.resize(1);
    ConnectedTcp(&both.active.fds[0], &both.passive.fds[0]);
  }
  if (link != Link::kIwarpForeign) record.flags |= kHandOffExtensions;
  record.read_inbound = record.read_outbound = limit;
  both.active.record = both.passive.record = record;
  both.active.record.flags |= kHandOffActive;
  return both;
}

inline AdapterInfo TestAdapter() {
  AdapterInfo info;
  info.name = "soft0";
  FillSoftAdapterInfo(&info);
  return info;
}

inline Time In(Duration from_now) {
  return std::chrono::steady_clock::now() + from_now;
}
inline constexpr Duration kPatience = std::chrono::seconds(20);

// One end: a device with its objects.
struct End {
  std::shared_ptr<Device> device;
  std::shared_ptr<CompletionQueue> cq;
  std::shared_ptr<QueuePair> qp;
  QpCounters counters;
  // The callback may run briefly after the end of this object.
  struct Seen {
    std::atomic<int> closed{0};
    std::atomic<DisconnectReason> reason{DisconnectReason::kUnknown};
    Status cause;  // Once closed.
  };
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
  std::atomic<int>& closed = seen->closed;
  std::atomic<DisconnectReason>& reason = seen->reason;

  explicit End(const Tuning& tuning = {}, bool thread = true) {
    device = MakeSoftDevice(TestAdapter(), {.progress_thread = thread}, tuning).value();
    cq = device->CreateCompletionQueue(4096).value();
    qp = device->CreateQueuePair(Options()).value();
  }
  ~End() {
    if (qp) qp->Drop();
  }
  QpOptions Options() {
    QpOptions options;
    options.receive_cq = options.initiator_cq = cq;
    options.receive_depth = options.initiator_depth = 256;
    options.max_receive_sge = options.max_initiator_sge = kMaxSge;
    options.inline_size = 64;
    options.context = this;
    options.counters = &counters;
    options.on_peer_closed = [seen = seen](DisconnectReason why, Status cause) {
      seen->reason = why;
      seen->cause = std::move(cause);
      ++seen->closed;
    };
    return options;
  }
  Completion Next(Duration patience = kPatience) {
    Completion completion;
    completion.status = StatusCode::kInternalError;
    const Status status = cq->Wait(In(patience));
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (status.ok()) {
      EXPECT_EQ(cq->Poll({&completion, 1}), 1u);
    }
    return completion;
  }
  // Waits until `condition` is true; only Wait moves data.
  template <typename F>
  bool Until(F condition) {
    const Time deadline = In(kPatience);
    while (!condition()) {
      if (Time(std::chrono::steady_clock::now()) > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

struct Memory {
  std::shared_ptr<Buffer> buffer;
  std::vector<std::byte> heap;
  std::shared_ptr<MemoryRegion> region;
  std::byte* data = nullptr;
  std::size_t size = 0;

  Memory(End& end, std::size_t bytes, bool shared,
         std::uint32_t access = kAllowRemoteRead | kAllowRemoteWrite)
      : size(bytes) {
    if (shared) {
      buffer = end.device->AllocateBuffer(bytes).value();
      data = buffer->data();
    } else {
      heap.resize(bytes);
      data = heap.data();
    }
    region = end.device->Register(data, bytes, access).value();
  }
  Sge At(std::size_t offset, std::size_t length) const {
    return {data + offset, static_cast<std::uint32_t>(length), region->local_token()};
  }
  std::uint64_t Address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(data + offset);
  }
  std::uint32_t token() const { return region->remote_token(); }
  void Fill(unsigned seed) {
    for (std::size_t i = 0; i < size; ++i)
      data[i] = static_cast<std::byte>((i * 131 + seed * 17 + (i >> 8)) & 0xFF);
  }
};

// Two ends over each kind of connection.
struct Case {
  Link link;
  bool shared_memory;
};

class QpTest : public ::testing::TestWithParam<Case> {
 protected:
  void Connect(std::uint32_t limit = 16, const Tuning& tuning = {}, bool thread = true) {
    a = std::make_unique<End>(tuning, thread);
    b = std::make_unique<End>(tuning, thread);
    Join(limit);
  }
  void Join(std::uint32_t limit = 16) {
    HandOffs both = MakeHandOffs(GetParam().link, limit);
    ASSERT_TRUE(a->qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(b->qp->Attach(std::move(both.passive)).ok());
  }
  Memory Mem(End& end, std::size_t bytes, std::uint32_t access = kAllowRemoteRead | kAllowRemoteWrite) {
    return Memory(end, bytes, GetParam().shared_memory, access);
  }
  bool foreign() const { return GetParam().link == Link::kIwarpForeign; }
  std::unique_ptr<End> a, b;
};

// Lets two ends without data show each other their tables, as the first one-sided request does. Nothing else
// drives `b`.
inline void Acquaint(End& a, End& b) {
  ASSERT_TRUE(a.qp->Write(nullptr, {}, 0, 0, 0).ok());
  Completion got;
  ASSERT_TRUE(a.Until([&] { return b.cq->Poll({&got, 1}) == 0 && a.cq->Poll({&got, 1}) == 1; }));
  EXPECT_EQ(got.status, StatusCode::kSuccess);
  EXPECT_EQ(a.cq->Poll({&got, 1}), 0u);  // Reads the table of b, which came with the acknowledgement.
}

// Blocks the progress thread of this process in a callback during its life.
class HeldUpThread {
 public:
  HeldUpThread() {
    HandOffs both = MakeHandOffs(Link::kShared);
    End here, there;
    std::promise<void> held;
    QpOptions options = there.Options();
    options.on_peer_closed = [&held, go = let_go_.get_future().share()](DisconnectReason, const Status&) {
      held.set_value();
      go.wait();
    };
    there.qp = there.device->CreateQueuePair(options).value();
    EXPECT_TRUE(here.qp->Attach(std::move(both.active)).ok());
    EXPECT_TRUE(there.qp->Attach(std::move(both.passive)).ok());
    here.qp->Drop();
    held.get_future().wait();
  }
  ~HeldUpThread() { let_go_.set_value(); }

 private:
  std::promise<void> let_go_;
};

inline void* Tag(std::uintptr_t n) {
  return reinterpret_cast<void*>(n);
}

}  // namespace nd::provider::soft
