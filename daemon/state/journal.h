// SPDX-License-Identifier: Apache-2.0
// The lease journal: the holders of ports, in a file that survives the death of the broker.
//
// A journal is an image of one header and records of one size, in the order in which leases were taken. A
// released lease is marked in its record, so every record of a truncated image still tells whether it is
// valid. It is written without fsync, because written data survives the death of the process, kill -9
// included. It need not survive a crash of the host: no client survives that, the directory is a tmpfs, and
// an image of another boot is ignored. The contents are hints that are not needed to start: an error in them
// costs leases only.
//
// Recover() and the encoders are pure: any thread. A Journal: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "daemon/core/lease.h"
#include "nd/status.h"

namespace nd::state {

// ---- The image -------------------------------------------------------------------------------------------
inline constexpr std::size_t kHeaderSize = 128, kRecordSize = 128, kMarkSize = 8;
inline constexpr std::size_t kMaxAdapterName = 64, kMaxBootId = 36;
inline constexpr std::size_t kStarts = 5;  // The number of remembered starts.

struct Header {
  std::string boot;              // /proc/sys/kernel/random/boot_id
  std::uint64_t generation = 0;  // Of the image; incremented by each rewrite.
  // The start times of brokers that did not stop in an orderly way since, oldest first; at most kStarts.
  std::vector<Time> starts;
};

struct Recovery {
  enum class End {
    kWhole,         // The whole image is valid.
    kEmpty,         // There is no image.
    kBadHeader,     // Not a journal, or damaged.
    kOtherVersion,  // A journal in the format of another version of the broker.
    kOtherBoot,     // From before the host started.
    kBadRecord,     // Damaged, truncated or out of order; the records before it are valid.
  };
  End end = End::kEmpty;
  Header header;                    // Unless kEmpty, kBadHeader or kOtherVersion.
  std::vector<core::Lease> leases;  // In force, in the order in which they were taken.
  std::size_t freed = 0;            // Records of released leases.
  std::size_t ignored_bytes = 0;    // From the first bad record on.
};

// Never fails, reads no byte twice outside `image`, and its memory is bounded by the number of whole records.
Recovery Recover(std::span<const std::byte> image, std::string_view boot);

// The record of a lease in an image of `generation`, `index` records after the header.
std::array<std::byte, kRecordSize> EncodeRecord(std::uint64_t generation, std::uint32_t index,
                                                const core::Lease& lease);
// The bytes that overwrite the start of the record of a released lease.
std::array<std::byte, kMarkSize> EncodeFreed();
std::array<std::byte, kHeaderSize> EncodeHeader(const Header& header);

// ---- The journal -----------------------------------------------------------------------------------------
// The storage of an image. After a failure the contents are unknown. No call waits for a disk.
class Medium {
 public:
  virtual ~Medium() = default;
  // The whole image; empty when there is none.
  virtual Result<std::vector<std::byte>> Read() = 0;
  virtual Status Write(std::size_t offset, std::span<const std::byte> bytes) = 0;
  // Atomic: a reader sees the former image or this one.
  virtual Status Replace(std::span<const std::byte> image) = 0;
  // Makes the image invalid.
  virtual void Discard() = 0;
  // Keeps the image for inspection and starts without one.
  virtual Status SetAside() = 0;
};

struct JournalState {
  bool journaled = false;
  std::string problem;           // The reason when not journaled; otherwise empty.
  std::size_t leases = 0;        // In force.
  std::size_t records = 0;       // Records in the image, released ones included.
  std::uint64_t generation = 0;  // The generation of the image.
  std::size_t recovered = 0;     // Leases taken over at the start.
  std::uint64_t failures = 0;    // Writes that failed.
  bool set_aside = false;        // The image was set aside at the start, because of a crash loop.
  std::string last_error = {};   // The latest failure of a write; stays after writing works again.
};

class Journal {
 public:
  struct Options {
    std::string boot;
    Duration crash_window = std::chrono::seconds(30);  // kStarts crashes within this time are a crash loop.
    Duration retry = std::chrono::seconds(1);          // After a failure; doubles up to 64 times this.
    std::size_t compact_at = 1024;                     // Records; a smaller image is not rewritten.
    // Receives one line for each change between journaled and not journaled, and for findings at the start.
    std::function<void(bool good, const std::string& line)> tell;
  };
  Journal(std::unique_ptr<Medium> medium, Options options);
  ~Journal();

  // Takes over the leases of the former broker for which `holds` returns true, and starts a new image with
  // them. After a crash loop the image is set aside and each lease belongs to its user without a process, so
  // that a user who makes the broker crash does not switch the protection off. A failure of the medium is no
  // failure of Start(): see state().
  std::vector<core::Lease> Start(Time now, const std::function<bool(const core::Lease&)>& holds);
  void Taken(Time now, const core::Lease& lease);
  void Freed(Time now, const std::string& adapter, const Address& local);
  // An orderly end: the next start does not count as a crash. The leases stay in the image.
  void Stop(Time now);

  // The time at which to call Retry() while not journaled. Taken() and Freed() retry by themselves from then
  // on.
  std::optional<Time> retry_at() const { return retry_at_; }
  void Retry(Time now);
  JournalState state() const;

 private:
  using Key = std::pair<std::string, Address>;
  struct Entry {
    std::uint32_t index = 0;
    core::Lease lease;
  };
  void Failed(Time now, const Status& why);
  bool Rewrite(Time now);
  void Tell(bool good, const std::string& line) const;

  const std::unique_ptr<Medium> medium_;
  const Options options_;
  std::map<Key, Entry> leases_;
  Header header_;
  std::uint32_t records_ = 0;
  bool journaled_ = false;
  std::string problem_, last_error_;
  std::optional<Time> retry_at_;
  Duration backoff_{};
  std::size_t recovered_ = 0;
  std::uint64_t failures_ = 0;
  bool set_aside_ = false;
};

}  // namespace nd::state
