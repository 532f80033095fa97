// SPDX-License-Identifier: Apache-2.0
// The history: past connections and actions of administrators, in a SQLite file written by its own thread.
//
// Add() and AddAudit() only queue rows, so they never wait for the disk. A connection row is dropped and
// counted when its queue is full. An audit row is never dropped: an action needs a place in the audit queue
// first (ReserveAudit) and is refused without one. Rows that cannot be written until the end go to the log.
// When the file cannot be written (full, read-only, missing), this is reported once, rows wait in the queues,
// and the write is retried until it succeeds. A damaged file is set aside as FILE.bad-TIME and a new one is
// made. The broker serves without the history. Any thread.
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
  std::string problem;        // The reason when not writing; otherwise empty.
  std::uint64_t written = 0;  // Rows of both kinds.
  std::uint64_t dropped = 0;  // Connections.
  std::size_t waiting = 0;
  std::uint64_t audit_refused = 0;  // Actions that were refused because no place was free for their row.
  std::string last_error;           // Stays after writing works again.
};

class History {
 public:
  struct Options {
    std::string file;
    std::chrono::hours keep = std::chrono::hours(24 * 30);
    std::size_t max_rows = 100'000;
    std::size_t max_waiting = 32'768;  // Connections.
    std::size_t max_waiting_audit = 1024;
    // The longest time that a row waits for others, unless three quarters of max_waiting wait. The
    // connections of an application that is killed all end within it, and their peers need the processors
    // meanwhile.
    std::chrono::milliseconds gather{1000};
    std::chrono::milliseconds retry{1000};  // The pause after a failure; doubles up to 64 times this.
    // Receives one line for each change between writing and not writing, and for a file that is set aside.
    // Called on the history's thread.
    std::function<void(bool good, const std::string& line)> tell;
  };
  explicit History(Options options);
  // Writes waiting rows, if that is possible at once.
  ~History();

  // Waits until opening the file succeeded or failed, at most `patience`.
  void AwaitOpen(std::chrono::milliseconds patience);
  void Add(HistoryRow row);
  // Reserves a place for one row; one AddAudit() must follow. INSUFFICIENT_RESOURCES, with the reason and the
  // remedy.
  Status ReserveAudit();
  void AddAudit(AuditRow row);
  // Runs a function on the writer's thread, which may be waiting for the disk.
  void Post(std::function<void()> function);
  // Waits until all rows added so far are written or a write failed, at most `patience`.
  void Flush(std::chrono::milliseconds patience = std::chrono::hours(1));

  // Includes rows that were added before the call, unless the disk takes longer than five seconds. Reads the
  // file on the thread of the caller, which may wait for the disk. UNSUCCESSFUL with the reason.
  Result<HistoryPage> List(const HistoryFilter& filter);
  HistoryState state() const;
  const std::string& file() const { return options_.file; }

 private:
  struct Batch {
    std::vector<HistoryRow> rows;
    std::vector<AuditRow> audit;
    std::size_t size() const { return rows.size() + audit.size(); }
  };
  // ---- the writer thread
  void Run();
  // Waits until `condition` is true or `patience` has passed and runs posted functions meanwhile. Takes the
  // lock on mutex_.
  template <typename Condition>
  bool Await(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds patience, Condition condition);
  Status Open();
  std::size_t full() const { return options_.max_waiting / 4 * 3; }
  // Waits for rows; returns false at the end.
  bool Gather(bool trimming, Batch* batch);
  // Writes the batch and removes some old rows; *more: there are further old rows.
  Status Write(const Batch& batch, bool* more);
  void Settle(Batch batch, bool written);
  // Returns true when a damaged file was set aside: the next Open() makes a new one.
  bool Trouble(const Status& why);
  void Recovered();
  // Returns false when the file could not be moved.
  bool SetAside();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, changed_;
  std::deque<HistoryRow> rows_;
  std::deque<AuditRow> audit_;
  std::vector<std::function<void()>> posted_;
  std::uint64_t added_ = 0, settled_ = 0;  // Settled: written or dropped.
  HistoryState state_;
  std::size_t audit_reserved_ = 0;
  bool stop_ = false, tried_ = false, hurry_ = false;
  bool emptying_ = false;  // Rows that have gathered are being written, one batch after another.
  bool suspect_ = false;   // A reader found the file damaged.

  std::unique_ptr<HistoryDb> db_;  // Of the writer.
  std::thread thread_;
};

}  // namespace nd::state
