// SPDX-License-Identifier: Apache-2.0
// The journal's medium in the daemon: DIR/journal, 0600, replaced by rename, kept open for writing in place.
//
// Written with pwrite() and not through a mapping: what is written is as safe from this process's death, a
// full file system is an answer instead of SIGBUS, and nobody who cuts the file short can end the broker.
// ACCESS_DENIED: the file is somebody else's, or not an ordinary file; it is never touched then. UNSUCCESSFUL
// with the reason otherwise. One thread.
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
  // As journal.bad; SUCCESS with a message that says where.
  Status SetAside() override;

 private:
  // Opens what is there; no descriptor and SUCCESS when nothing is.
  Status Open(UniqueFd* out) const;
  const std::string path_;
  UniqueFd file_;  // The image that Replace() made.
};

// Text that names this boot of the host; empty when the kernel does not say.
std::string BootId();

}  // namespace nd::state
