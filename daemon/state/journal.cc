// SPDX-License-Identifier: Apache-2.0
// Decides when to write. After a failed write it continues without the journal, reports that once, and tries
// again.
#include "daemon/state/journal.h"

#include <algorithm>

namespace nd::state {
namespace {

bool Encodable(const core::Lease& lease) {
  return !lease.adapter.empty() && lease.adapter.size() <= kMaxAdapterName && lease.local.well_formed() &&
         lease.local.port() != 0 && lease.kind <= core::PortKind::kSharedEndpoint;
}

std::string Found(const Recovery& found) {
  switch (found.end) {
    case Recovery::End::kBadHeader:
      return "the lease journal was damaged from its first byte on; no port is kept for a former owner";
    case Recovery::End::kOtherVersion:
      return "the lease journal has the format of another version of ndbrokerd; it is not used, and no port "
             "is "
             "kept for a former owner. The broker writes a new one";
    case Recovery::End::kBadRecord:
      return "the lease journal was damaged after " + std::to_string(found.leases.size() + found.freed) +
             " records; the leases before that count";
    default:
      return "";
  }
}

}  // namespace

Journal::Journal(std::unique_ptr<Medium> medium, Options options)
    : medium_(std::move(medium)), options_(std::move(options)), backoff_(options_.retry) {}

Journal::~Journal() = default;

std::vector<core::Lease> Journal::Start(Time now, const std::function<bool(const core::Lease&)>& holds) {
  header_.boot = options_.boot.substr(0, kMaxBootId);
  Recovery found;
  Status bad;
  if (Result<std::vector<std::byte>> image = medium_->Read(); image.ok()) {
    found = Recover(*image, header_.boot);
  } else {
    bad = image.status();
  }
  std::vector<core::Lease> leases = std::move(found.leases);
  if (found.end == Recovery::End::kWhole || found.end == Recovery::End::kBadRecord) {
    header_.generation = found.header.generation;
    header_.starts = std::move(found.header.starts);
  }
  // Start times in the future are invalid.
  std::erase_if(header_.starts, [&](Time t) { return t > now || now - t > options_.crash_window; });
  if (header_.starts.size() >= kStarts) {
    const Status aside = medium_->SetAside();
    Tell(false,
         "the broker ended unexpectedly " + std::to_string(header_.starts.size()) + " times within " +
             std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options_.crash_window).count()) +
             " s; the lease journal is set aside" +
             (aside.ok() ? aside.message() : " (" + aside.message() + ")") +
             " and each port is kept for all processes of the user that had it");
    set_aside_ = true;
    header_.starts.clear();
  } else if (const std::string line = Found(found); !line.empty()) {
    Tell(false, line);
  }
  header_.starts.push_back(now);
  std::vector<core::Lease> kept;
  for (core::Lease& lease : leases) {
    if (!holds(lease)) continue;
    // After a crash loop the holding process is forgotten, because facts about it may be the cause. The user
    // keeps the port.
    if (set_aside_) lease.holder = {lease.holder.uid, 0, 0};
    const auto index = static_cast<std::uint32_t>(leases_.size());
    // A port that occurs twice is an error of the file.
    if (leases_.try_emplace({lease.adapter, lease.local}, Entry{index, lease}).second) {
      kept.push_back(std::move(lease));
    }
  }
  recovered_ = kept.size();
  if (!bad.ok()) {
    Failed(now, bad);
  } else {
    Rewrite(now);
  }
  return kept;
}

void Journal::Taken(Time now, const core::Lease& lease) {
  if (!Encodable(lease)) return;
  const Entry entry{records_, lease};
  leases_.insert_or_assign({lease.adapter, lease.local}, entry);
  if (!journaled_) {
    if (retry_at_ && now >= *retry_at_) Retry(now);
    return;
  }
  if (records_ >= options_.compact_at && leases_.size() * 2 <= records_) {
    Rewrite(now);
    return;
  }
  const auto record = EncodeRecord(header_.generation, records_, lease);
  const Status status = medium_->Write(kHeaderSize + std::size_t{records_} * kRecordSize, record);
  ++records_;
  if (!status.ok()) Failed(now, status);
}

void Journal::Freed(Time now, const std::string& adapter, const Address& local) {
  const auto found = leases_.find({adapter, local});
  if (found == leases_.end()) return;
  const std::uint32_t index = found->second.index;
  leases_.erase(found);
  if (!journaled_) {
    if (retry_at_ && now >= *retry_at_) Retry(now);
    return;
  }
  const auto mark = EncodeFreed();
  const Status status = medium_->Write(kHeaderSize + std::size_t{index} * kRecordSize, mark);
  if (!status.ok()) Failed(now, status);
}

void Journal::Stop(Time now) {
  header_.starts.clear();
  if (!journaled_) {
    Rewrite(now);
    return;
  }
  if (const Status status = medium_->Write(0, EncodeHeader(header_)); !status.ok()) Failed(now, status);
}

void Journal::Retry(Time now) {
  if (journaled_ || !retry_at_) return;
  Rewrite(now);
}

bool Journal::Rewrite(Time now) {
  std::vector<Entry*> order;
  order.reserve(leases_.size());
  for (auto& [key, entry] : leases_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->index < b->index; });
  Header header = header_;
  ++header.generation;
  std::vector<std::byte> image;
  image.reserve(kHeaderSize + order.size() * kRecordSize);
  const auto head = EncodeHeader(header);
  image.insert(image.end(), head.begin(), head.end());
  records_ = 0;
  for (Entry* entry : order) {
    entry->index = records_++;
    const auto record = EncodeRecord(header.generation, entry->index, entry->lease);
    image.insert(image.end(), record.begin(), record.end());
  }
  if (const Status status = medium_->Replace(image); !status.ok()) {
    Failed(now, status);
    return false;
  }
  header_ = std::move(header);
  const bool was_in_trouble = !problem_.empty();
  journaled_ = true;
  problem_.clear();
  retry_at_.reset();
  backoff_ = options_.retry;
  if (was_in_trouble) {
    Tell(true, "the lease journal is written again; it has " + std::to_string(records_) + " leases");
  }
  return true;
}

void Journal::Failed(Time now, const Status& why) {
  ++failures_;
  // Leases that are released from now on cannot be marked there.
  medium_->Discard();
  const bool news = problem_.empty();
  journaled_ = false;
  problem_ = last_error_ = why.message().empty() ? why.ToString() : why.message();
  if (!news) backoff_ = std::min(backoff_ * 2, options_.retry * 64);
  retry_at_ = now + backoff_;
  if (news) {
    Tell(false, "the lease journal cannot be written (" + problem_ +
                    "); serving goes on, but ports would not be kept for their owners if the broker died");
  }
}

void Journal::Tell(bool good, const std::string& line) const {
  if (options_.tell) options_.tell(good, line);
}

JournalState Journal::state() const {
  return {journaled_, problem_,  leases_.size(), records_,   header_.generation,
          recovered_, failures_, set_aside_,     last_error_};
}

}  // namespace nd::state
