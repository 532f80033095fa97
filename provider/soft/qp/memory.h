// SPDX-License-Identifier: Apache-2.0
// Buffers, regions and windows of one device.
//
// Thread rule: any thread. Deregister, and the end of a window, return when no access through the STag is
// running, neither by this process nor directly by a peer process.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/memfd.h"
#include "base/os/descriptor.h"
#include "base/os/fork.h"
#include "provider/qp.h"
#include "provider/soft/qp/drive/ready_page.h"
#include "provider/soft/qp/shm/former_peers.h"
#include "provider/soft/qp/shm/peer_mappings.h"
#include "provider/soft/qp/token_table.h"

namespace nd::provider::soft {

class SoftQueuePair;

// How long a peer may continue to access memory whose registration ends, before its connection ends.
inline constexpr Duration kRevokePatience = std::chrono::seconds(1);

// Beyond so many pieces of shared memory of the program, those that are not registered are forgotten.
inline constexpr std::size_t kMostBorrowed = 1024;

// Settings for tests and embedders.
struct Tuning {
  Duration rnr_timeout =
      std::chrono::seconds(1);  // How long a Send waits for a receive of the peer, at first.
  std::uint32_t max_ulpdu = 0;  // iWARP: overrides the choice by peer kind. 0: choose.
  // How long the progress thread leaves a queue pair to an application that polls.
  Duration put_off = std::chrono::milliseconds(1);
  // How long a thread in Wait sleeps on words of memory. One that sleeps longer watches the descriptors,
  // which also tell the end of a peer.
  Duration on_words = std::chrono::milliseconds(10);
  bool direct_access = true;  // Same host: one memcpy into the peer's shared buffers where allowed.
  // Same host: ordinary memory of the peer is reached by a call of the system where direct access is allowed
  // too.
  bool process_access = true;
};

class SoftBuffer final : public Buffer {
 public:
  SoftBuffer(std::uint32_t id, UniqueFd fd, Mapping mapping)
      : id_(id),
        fd_(std::move(fd)),
        mapping_(std::move(mapping)),
        data_(mapping_.data()),
        size_(mapping_.size()) {}
  // Of a memfd that the program has mapped at `data`. `lent`: peers get more of it than a region gives them.
  SoftBuffer(std::uint32_t id, UniqueFd fd, std::byte* data, std::size_t size, bool lent)
      : id_(id), fd_(std::move(fd)), data_(data), size_(size), lent_(lent) {}
  std::byte* data() const override { return data_; }
  std::size_t size() const override { return size_; }
  // The memory is the program's, which uses it after the end of its registration too.
  bool borrowed() const { return !mapping_; }
  // Only for processes of this user, which can reach all of its memory in any case.
  bool lent() const { return lent_; }
  std::uint32_t id() const { return id_; }
  int fd() const { return fd_.get(); }

 private:
  std::uint32_t id_;
  UniqueFd fd_;
  Mapping mapping_;
  std::byte* data_;
  std::size_t size_;
  bool lent_ = false;
};

// The state that all objects of a device share.
class DeviceCore {
 public:
  static Result<std::shared_ptr<DeviceCore>> Create(const AdapterInfo& info, const DeviceOptions& options,
                                                    const Tuning& tuning);

  AdapterInfo info;
  Tuning tuning;
  bool progress_thread = true;
  os::ForkMark process;
  std::unique_ptr<TokenTable> regions;
  PeerMappings peer_tables{kRegionTableSize, false};
  PeerMappings peer_pages{sizeof(ReadyCounters), true};  // In which this process announces (ready_page.h).
  FormerPeers former_peers;

  bool forked() const { return process.InChild(); }

  Result<std::shared_ptr<SoftBuffer>> AllocateBuffer(std::size_t size);
  // The Buffer that contains the whole range, or null.
  std::shared_ptr<SoftBuffer> BufferAround(const void* address, std::size_t length);
  // The program's own shared memory, as a buffer: memory that its allocator lends (base/lent_memory.h); else
  // memory of which the region [address, address + length) with these rights contains all, so that a peer
  // that maps it gets no right to write that the region does not give. Null: there is none, or peers may not
  // be given memory.
  std::shared_ptr<SoftBuffer> Borrow(void* address, std::size_t length, std::uint32_t access);
  std::shared_ptr<SoftBuffer> BufferById(std::uint32_t id);

  std::uint32_t AddQueuePair(SoftQueuePair* queue_pair);  // Returns its number, never 0.
  void RemoveQueuePair(SoftQueuePair* queue_pair);
  // After TokenTable::Remove: waits until no peer accesses memory through `stag`, at most kRevokePatience
  // for all peers together, and ends the connections of those that continue. Holds no lock meanwhile.
  // `ordinary`: the memory is in no Buffer of its own, so that an access after the end would damage other
  // data. Then a peer that is known to be there is waited for without end: a copy takes long only while its
  // process is stopped.
  void Quiesce(std::uint32_t stag, bool ordinary);

 private:
  void DropDeadBuffers();
  std::uint32_t NextBufferId();
  template <typename Predicate>
  void KeepIf(std::vector<std::uint32_t>& numbers, Predicate&& predicate);
  void EndThoseThatTouch(std::uint32_t stag, const std::vector<std::uint32_t>& numbers);

  std::mutex buffers_mutex_;
  std::map<const std::byte*, std::weak_ptr<SoftBuffer>> buffers_;
  struct Borrowed {
    os::MemoryNumber number;
    std::uint32_t id;
    std::weak_ptr<SoftBuffer> buffer;
  };
  // Those of the past too: memory that is registered again keeps its number, so that a peer maps it once.
  std::vector<Borrowed> borrowed_;
  std::uint32_t next_buffer_ = 1;
  std::mutex queue_pairs_mutex_;
  std::map<std::uint32_t, SoftQueuePair*> queue_pairs_;  // By number.
  std::uint32_t next_queue_pair_ = 1;
};

class SoftRegion final : public MemoryRegion, public std::enable_shared_from_this<SoftRegion> {
 public:
  // INVALID_PARAMETER, INVALID_BUFFER_SIZE, INSUFFICIENT_RESOURCES.
  static Result<std::shared_ptr<SoftRegion>> Register(std::shared_ptr<DeviceCore> core, void* address,
                                                      std::size_t length, std::uint32_t access,
                                                      const RegionOptions& options = {});
  ~SoftRegion() override;
  std::uint32_t local_token() const override { return stag_; }
  std::uint32_t remote_token() const override { return stag_; }
  Status Deregister() override;
  Status Change(void* address, std::size_t length, std::uint32_t access,
                const RegionOptions& options) override;

  RegionView view();
  const std::shared_ptr<DeviceCore>& core() const { return core_; }
  // A bound window holds the region; returns false when it is deregistered already.
  bool Hold();
  void Unhold();

 private:
  explicit SoftRegion(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}
  // What the table will say; *buffer keeps its memory. INVALID_PARAMETER, INVALID_BUFFER_SIZE.
  Result<RegionView> Describe(void* address, std::size_t length, std::uint32_t access,
                              const RegionOptions& options, std::shared_ptr<SoftBuffer>* buffer) const;

  const std::shared_ptr<DeviceCore> core_;
  // Access to its memory after the end of the registration would damage other data.
  bool ordinary() const { return buffer_ == nullptr || buffer_->borrowed(); }

  std::shared_ptr<SoftBuffer> buffer_;
  RegionView view_;
  std::uint32_t stag_ = 0;
  std::mutex mutex_;
  bool registered_ = false;
  std::uint32_t bound_windows_ = 0;
};

// A memory window. A binding ends when it was replaced and no request refers to it.
//
// A window of Network Direct has an STag of its own for each binding. A verbs window has one slot of the
// table, for as long as it lives, and one binding at most.
class SoftWindow final : public MemoryWindow, public std::enable_shared_from_this<SoftWindow> {
 public:
  explicit SoftWindow(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}
  // INSUFFICIENT_RESOURCES.
  static Result<std::shared_ptr<SoftWindow>> CreateForVerbs(std::shared_ptr<DeviceCore> core,
                                                            WindowKind kind);
  ~SoftWindow() override;
  std::uint32_t remote_token() const override { return token_.load(std::memory_order_acquire); }
  const std::shared_ptr<DeviceCore>& core() const { return core_; }
  WindowKind kind() const { return kind_; }

  // Opens a new binding beside the present one. ACCESS_VIOLATION: outside the region, or a right that the
  // region lacks; INSUFFICIENT_RESOURCES.
  Result<std::uint32_t> Open(const std::shared_ptr<SoftRegion>& region, void* address, std::size_t length,
                             std::uint32_t access, std::uint32_t queue_pair);
  // Of a verbs window, whose former binding has been shut. ACCESS_VIOLATION: as Open(), the token of another
  // window, the region of another domain, or a binding is there.
  Status OpenAs(const std::shared_ptr<SoftRegion>& region, const WindowBinding& binding,
                std::uint32_t queue_pair, std::uint32_t domain);
  // Removes a binding from the table. The caller waits for running accesses and then releases the region,
  // without a lock. Null when `stag` is not a binding of this window.
  std::shared_ptr<SoftRegion> Shut(std::uint32_t stag);
  // The STags of every binding but `keep`.
  std::vector<std::uint32_t> BindingsExcept(std::uint32_t keep);

 private:
  struct Binding {
    std::uint32_t stag;
    std::shared_ptr<SoftRegion> region;
  };
  // The entry of a binding of `region`, which is held then. ACCESS_VIOLATION.
  Result<RegionView> Describe(const std::shared_ptr<SoftRegion>& region, std::uint64_t address,
                              std::uint64_t length, std::uint32_t access, std::uint32_t queue_pair) const;

  std::shared_ptr<DeviceCore> core_;
  WindowKind kind_ = WindowKind::kNetworkDirect;
  std::uint32_t reserved_ = 0;  // Of a verbs window.
  std::atomic<std::uint32_t> token_{0};
  std::mutex mutex_;
  std::vector<Binding> bindings_;
};

}  // namespace nd::provider::soft
