// SPDX-License-Identifier: Apache-2.0
// The journal's medium in the daemon: DIR/journal, 0600, replaced by rename, kept open for writing in place.
//
// Written with pwrite() and not through a mapping: written data survives this process all the same, a full
// file system is an error instead of SIGBUS, and truncating the file cannot end the broker. ACCESS_DENIED:
// the file belongs to another user or is not a regular file; it is then not touched. Otherwise UNSUCCESSFUL
// with the reason. One thread.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "daemon/state/journal.h"

namespace nd::state {

inline constexpr char kJournalName[] = "journal";  // In the broker's directory.

class JournalFile final : public Medium {
 public:
  explicit JournalFile(std::string directory);

  Result<std::vector<std::byte>> Read() override;
  Status Write(std::size_t offset, std::span<const std::byte> bytes) override;
  Status Replace(std::span<const std::byte> image) override;
  void Discard() override;
  // Renames it to journal.bad; the message of the SUCCESS says where.
  Status SetAside() override;

 private:
  // Opens the file; SUCCESS without a descriptor when there is none.
  Status Open(UniqueFd* out) const;
  const std::string path_;
  UniqueFd file_;  // The image of the last Replace().
};

// The boot id of the host; empty when the kernel has none.
std::string BootId();

}  // namespace nd::state
