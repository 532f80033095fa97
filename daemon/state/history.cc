// SPDX-License-Identifier: Apache-2.0
// The writer thread: gathers and commits rows, removes old rows in small steps, and survives disk errors.
#include "daemon/state/history.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/os/thread.h"
#include "base/utc_time.h"
#include "daemon/state/history_db.h"
#include "daemon/state/sqlite.h"

namespace nd::state {
namespace {

constexpr std::size_t kBatch = 512;  // Rows of one commit.
constexpr std::chrono::seconds kReaderWaits{5};
constexpr std::chrono::hours kForEver{24 * 365 * 10};

UnixTime Now() {
  using std::chrono::microseconds;
  return std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string TimeForName() {
  const std::tm parts = UtcParts(std::time(nullptr));
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

template <typename Row>
std::vector<Row> TakeFront(std::deque<Row>& queue) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(queue.size(), kBatch));
  std::vector<Row> taken(std::make_move_iterator(queue.begin()),
                         std::make_move_iterator(queue.begin() + count));
  queue.erase(queue.begin(), queue.begin() + count);
  return taken;
}

}  // namespace

History::History(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {}

History::~History() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
  for (const AuditRow& row : audit_) {
    if (!options_.tell) break;
    options_.tell(false, "not written to the history: " + row.type + " " + row.object + " by uid " +
                             std::to_string(row.uid) + " (pid " + std::to_string(row.pid) +
                             "): " + row.outcome + " " + row.message);
  }
}

void History::AwaitOpen(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return tried_; });
}

void History::Add(HistoryRow row) {
  bool news;
  {
    std::lock_guard lock(mutex_);
    ++added_;
    if (rows_.size() >= options_.max_waiting) {
      ++state_.dropped;
      ++settled_;
      return;
    }
    rows_.push_back(std::move(row));
    const std::size_t waiting = rows_.size() + audit_.size();
    news = waiting == 1 || waiting == full();
  }
  if (news) wake_.notify_one();  // Otherwise the writer would wake only to wait again.
}

Status History::ReserveAudit() {
  std::lock_guard lock(mutex_);
  if (audit_.size() + audit_reserved_ < options_.max_waiting_audit) {
    ++audit_reserved_;
    return {};
  }
  ++state_.audit_refused;
  return {StatusCode::kInsufficientResources,
          "this cannot be recorded, so it was not done: " + std::to_string(audit_.size()) +
              " records wait for the history in " + options_.file + ", which cannot be written (" +
              (state_.problem.empty() ? "the disk is slow" : state_.problem) +
              "); make room for it, or restart the broker with enabled = false in [history]"};
}

void History::AddAudit(AuditRow row) {
  {
    std::lock_guard lock(mutex_);
    ++added_;
    if (audit_reserved_ != 0) --audit_reserved_;
    audit_.push_back(std::move(row));
  }
  wake_.notify_one();
}

void History::Flush(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const std::uint64_t until = added_;
  if (settled_ >= until) return;
  hurry_ = true;
  wake_.notify_one();
  changed_.wait_for(lock, patience, [&] { return settled_ >= until || !state_.problem.empty(); });
}

Result<HistoryPage> History::List(const HistoryFilter& filter) {
  Flush(kReaderWaits);
  Status why;
  if (auto db = HistoryDb::Open(options_.file, HistoryDb::Mode::kRead); db.ok()) {
    Result<HistoryPage> page = (*db)->List(filter);
    if (page.ok()) return page;
    why = page.status();
  } else {
    why = db.status();
  }
  if (IsCorrupt(why)) {
    {
      std::lock_guard lock(mutex_);
      suspect_ = true;
    }
    wake_.notify_one();
  }
  return Status(why.code(), "the history in " + options_.file + " cannot be read: " + why.message(),
                Detail::kNone, why.native());
}

HistoryState History::state() const {
  std::lock_guard lock(mutex_);
  HistoryState state = state_;
  state.waiting = rows_.size() + audit_.size();
  return state;
}

void History::Post(std::function<void()> function) {
  {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(function));
  }
  wake_.notify_one();
}

template <typename Condition>
bool History::Await(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds patience,
                    Condition condition) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const bool woken = wake_.wait_until(lock, until, [&] { return condition() || !posted_.empty(); });
    if (!woken || posted_.empty()) return condition();
    const std::vector<std::function<void()>> posted = std::exchange(posted_, {});
    lock.unlock();
    for (const auto& function : posted) function();
    lock.lock();
  }
}

void History::Run() {
  os::NameThisThread("nd-history");
  std::chrono::milliseconds backoff = options_.retry;
  bool trimming = true;  // Rows may have become too old while nothing was written.
  // Waits after a failure. Returns false when the history ends; the waiting rows are then not tried again.
  const auto pause = [&] {
    std::unique_lock lock(mutex_);
    if (Await(lock, backoff, [this] { return stop_; })) return false;
    backoff = std::min(backoff * 2, options_.retry * 64);
    return true;
  };
  for (;;) {
    if (const Status opened = Open(); !opened.ok()) {
      Trouble(opened);
      if (!pause()) return;
      continue;
    }
    Batch batch;
    if (!Gather(trimming, &batch)) return;
    const Status status = Write(batch, &trimming);
    if (status.ok()) {
      backoff = options_.retry;
      Recovered();
      Settle(std::move(batch), true);
      continue;
    }
    Settle(std::move(batch), false);
    // A file on a full disk can be opened, so that Open() does not wait.
    if (!Trouble(status) && !pause()) return;
  }
}

Status History::Open() {
  bool suspect = false;
  {
    std::lock_guard lock(mutex_);
    suspect = std::exchange(suspect_, false);
  }
  if (suspect) SetAside();
  if (db_ != nullptr) return {};
  Result<std::unique_ptr<HistoryDb>> db = HistoryDb::Open(options_.file, HistoryDb::Mode::kWrite);
  if (!db.ok() && IsCorrupt(db.status()) && SetAside()) {
    db = HistoryDb::Open(options_.file, HistoryDb::Mode::kWrite);
  }
  if (!db.ok()) return db.status();
  db_ = std::move(db.value());
  bool proven = false;
  {
    std::lock_guard lock(mutex_);
    tried_ = true;
    // Waiting rows are the better test, because a file on a full disk can be opened.
    proven = rows_.empty() && audit_.empty();
  }
  proven ? Recovered() : changed_.notify_all();
  return {};
}

void History::Recovered() {
  std::string former;
  {
    std::lock_guard lock(mutex_);
    former = std::exchange(state_.problem, "");
    state_.writing = true;
  }
  changed_.notify_all();
  if (!former.empty() && options_.tell) {
    options_.tell(true, "the history in " + options_.file + " is written again");
  }
}

bool History::Gather(bool trimming, Batch* batch) {
  std::unique_lock lock(mutex_);
  const auto waiting = [this] { return rows_.size() + audit_.size(); };
  const auto something = [&] { return stop_ || suspect_ || waiting() != 0; };
  if (!trimming) Await(lock, kForEver, something);
  if (something() && !emptying_) {
    Await(lock, options_.gather, [&] { return stop_ || hurry_ || waiting() >= full(); });
  }
  if (stop_ && waiting() == 0) return false;
  hurry_ = false;
  *batch = {TakeFront(rows_), TakeFront(audit_)};
  emptying_ = waiting() != 0;
  return true;
}

Status History::Write(const Batch& batch, bool* more) {
  if (batch.size() != 0) {
    if (Status status = db_->Add(batch.rows, batch.audit); !status.ok()) return status;
  }
  const auto keep = std::chrono::duration_cast<std::chrono::microseconds>(options_.keep).count();
  const Result<std::size_t> removed = db_->Trim(Now() - keep, options_.max_rows);
  // The written rows are kept: a failure to remove old rows shows again at the next batch.
  *more = removed.ok() && *removed != 0;
  if (IsCorrupt(removed.status())) {
    std::lock_guard lock(mutex_);
    suspect_ = true;
  }
  return {};
}

void History::Settle(Batch batch, bool written) {
  {
    std::lock_guard lock(mutex_);
    if (written) {
      settled_ += batch.size();
      state_.written += batch.size();
    } else {
      rows_.insert(rows_.begin(), std::make_move_iterator(batch.rows.begin()),
                   std::make_move_iterator(batch.rows.end()));
      audit_.insert(audit_.begin(), std::make_move_iterator(batch.audit.begin()),
                    std::make_move_iterator(batch.audit.end()));
    }
  }
  changed_.notify_all();
}

bool History::Trouble(const Status& why) {
  if (IsCorrupt(why) && SetAside()) return true;
  db_.reset();
  bool news = false;
  {
    std::lock_guard lock(mutex_);
    news = state_.problem.empty();
    state_.problem = state_.last_error = why.message();
    state_.writing = false;
    tried_ = true;
  }
  changed_.notify_all();
  if (news && options_.tell) {
    options_.tell(false, "the history in " + options_.file + " cannot be written (" + why.message() +
                             "); serving goes on, and connections that end wait to be written");
  }
  return false;
}

bool History::SetAside() {
  db_.reset();
  const std::string first = options_.file + ".bad-" + TimeForName();
  std::string bad = first;
  std::error_code ignored;
  for (int n = 2; std::filesystem::exists(bad, ignored); ++n) bad = first + "-" + std::to_string(n);
  if (std::rename(options_.file.c_str(), bad.c_str()) != 0) return false;
  // The log files of the old file must not be taken for those of the new one.
  for (const char* suffix : {"-wal", "-shm"}) std::remove((options_.file + suffix).c_str());
  if (options_.tell) {
    options_.tell(
        false, "the history in " + options_.file + " is damaged; it is now " + bad + " and a new one begins");
  }
  return true;
}

}  // namespace nd::state
