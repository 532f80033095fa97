// SPDX-License-Identifier: Apache-2.0
// Past connections and administrators' deeds in a SQLite file, written by a thread of its own.
//
// Add() and AddAudit() only queue, whatever the disk does: what finds the queue full is counted and lost.
// When the file cannot be written (full, read-only, gone) that is said once, rows wait in the queue, and
// writing is tried again until it works. A damaged file is set aside as FILE.bad-TIME and a new one begun.
// Nothing here is ever needed to serve. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/state/history_row.h"
#include "nd/status.h"

namespace nd::state {

class HistoryDb;

struct HistoryState {
  bool writing = false;
  std::string problem;        // Why not; empty when writing.
  std::uint64_t written = 0;  // Rows, of both kinds.
  std::uint64_t dropped = 0;
  std::size_t waiting = 0;
  std::string last_error;  // Also once writing works again.
};

class History {
 public:
  struct Options {
    std::string file;
    std::chrono::hours keep = std::chrono::hours(24 * 30);
    std::size_t max_rows = 100'000;
    std::size_t max_waiting = 16'384;
    std::chrono::milliseconds gather{250};  // The longest time a row waits for others to share its commit.
    std::chrono::milliseconds retry{1000};  // After trouble; doubles up to 64 times this.
    // One line for each change between writing and not, and for a file that is set aside. Own thread.
    std::function<void(bool good, const std::string& line)> tell;
  };
  explicit History(Options options);
  // Writes what waits, if that can be done at once.
  ~History();

  // Until the file has been opened or could not be, but at most for `patience`.
  void AwaitOpen(std::chrono::milliseconds patience);
  void Add(HistoryRow row);
  void AddAudit(AuditRow row);
  // Until what was added so far is written or the writer is in trouble, but at most for `patience`.
  void Flush(std::chrono::milliseconds patience = std::chrono::hours(1));

  // What was added before the call is in it, unless the disk takes longer than five seconds. Reads the file
  // on the caller's thread, which may have to wait for the disk. UNSUCCESSFUL with the reason.
  Result<HistoryPage> List(const HistoryFilter& filter);
  HistoryState state() const;
  const std::string& file() const { return options_.file; }

 private:
  struct Batch {
    std::vector<HistoryRow> rows;
    std::vector<AuditRow> audit;
    std::size_t size() const { return rows.size() + audit.size(); }
  };
  template <typename Row>
  void Queue(std::deque<Row>& queue, Row row);

  // ---- the writer's
  void Run();
  Status Open();
  // Waits for rows; false: it is time to end.
  bool Gather(bool trimming, Batch* batch);
  // Writes the batch and removes some of what is too old; *more: there is more of that.
  Status Write(const Batch& batch, bool* more);
  void Settle(Batch batch, bool written);
  void Trouble(const Status& why);
  void Recovered();
  // False: it could not be moved away.
  bool SetAside();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, changed_;
  std::deque<HistoryRow> rows_;
  std::deque<AuditRow> audit_;
  std::uint64_t added_ = 0, settled_ = 0;  // Settled: written or dropped.
  HistoryState state_;
  bool stop_ = false, tried_ = false, hurry_ = false;
  bool suspect_ = false;  // A reader found the file damaged.

  std::unique_ptr<HistoryDb> db_;  // Of the writer.
  std::thread thread_;
};

}  // namespace nd::state
