// SPDX-License-Identifier: Apache-2.0
// Images of the lease journal, cut, flipped or invented: recovery returns the valid records before the first
// bad one, and never a released lease.
//
// Input: flags (1: checksums and positions are corrected), then the image.
#include <cstring>

#include "daemon/state/journal.h"
#include "provider/soft/wire/crc32c.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

constexpr char kBoot[] = "11111111-2222-3333-4444-555555555555";
// As documented: the checksum is the last word; that of a header covers everything before it, that of a
// record everything after the mark. A record repeats generation and position.
constexpr std::size_t kHeader = state::kHeaderSize, kRecord = state::kRecordSize;

void PutChecksum(std::span<std::byte> raw, std::size_t from) {
  const std::uint32_t crc = provider::soft::wire::Crc32c(raw.subspan(from, raw.size() - 4 - from));
  std::memcpy(raw.data() + raw.size() - 4, &crc, sizeof crc);
}

void RepairJournal(std::span<std::byte> image) {
  if (image.size() < kHeader) return;
  PutChecksum(image.first(kHeader), 0);
  for (std::uint32_t index = 0; kHeader + (index + 1) * kRecord <= image.size(); ++index) {
    const auto record = image.subspan(kHeader + index * kRecord, kRecord);
    std::memcpy(record.data() + 8, image.data() + 8, 8);
    std::memcpy(record.data() + 32, &index, sizeof index);
    PutChecksum(record, state::kMarkSize);
  }
}

void Check(std::span<const std::byte> image) {
  const state::Recovery got = state::Recover(image, kBoot);
  const std::size_t records = got.leases.size() + got.freed;
  using End = state::Recovery::End;
  Require((got.end == End::kEmpty) == image.empty(), "only nothing is empty");
  if (got.end != End::kWhole && got.end != End::kBadRecord) {
    return Require(records == 0 && got.ignored_bytes == image.size(), "without a header nothing counts");
  }
  Require(got.ignored_bytes + kHeader + records * kRecord == image.size(), "every byte counts or is ignored");
  Require((got.end == End::kWhole) == (got.ignored_bytes == 0), "a whole image has nothing left over");
  Require(got.header.starts.size() <= state::kStarts && got.header.boot == kBoot, "a header is of this boot");
  for (const core::Lease& lease : got.leases) {
    Require(!lease.adapter.empty() && lease.adapter.size() <= state::kMaxAdapterName &&
                lease.local.port() != 0 && (lease.local.ip().size() == 4 || lease.local.ip().size() == 16),
            "a lease is one that could have been taken");
  }
  // A rewritten image is valid again, and a cut loses only the records after it.
  std::vector<std::byte> rewritten;
  const auto header = state::EncodeHeader(got.header);
  rewritten.insert(rewritten.end(), header.begin(), header.end());
  for (std::uint32_t i = 0; i < got.leases.size(); ++i) {
    const auto record = state::EncodeRecord(got.header.generation, i, got.leases[i]);
    rewritten.insert(rewritten.end(), record.begin(), record.end());
  }
  const state::Recovery again = state::Recover(rewritten, kBoot);
  Require(again.end == End::kWhole && again.leases == got.leases && again.freed == 0 &&
              again.header.starts == got.header.starts,
          "leases survive being written and read");
  if (rewritten.size() > kHeader) {
    const state::Recovery cut = state::Recover(std::span(rewritten).first(rewritten.size() - 1), kBoot);
    Require(cut.end == End::kBadRecord && cut.leases.size() + 1 == got.leases.size(),
            "a cut costs one lease");
    const auto freed = state::EncodeFreed();
    std::copy(freed.begin(), freed.end(), rewritten.begin() + kHeader);
    const state::Recovery marked = state::Recover(rewritten, kBoot);
    Require(marked.freed == 1 && marked.leases.size() + 1 == got.leases.size(),
            "what was given back stays so");
  }
}

}  // namespace
}  // namespace nd::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size > 1 && seed % 4 != 0)
    nd::fuzz::RepairJournal(std::as_writable_bytes(std::span(data + 1, size - 1)));
  return size;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  Input input(data, size);
  const auto flags = input.Number();
  std::vector<std::byte> image = Exact(input.rest());
  if ((flags & 1) != 0) RepairJournal(image);
  Check(image);
  return 0;
}
