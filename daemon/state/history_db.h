// SPDX-License-Identifier: Apache-2.0
// The history's file: its tables, what goes in, what comes out, what is too old.
//
// Every function may wait for the disk. One thread at a time for an object; a reader may be another object,
// in another process even. Statuses: UNSUCCESSFUL with SQLite's reason (IsCorrupt tells damage apart), and
// NOT_SUPPORTED for a file that a later version of the program has written.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/state/history_row.h"
#include "nd/status.h"

namespace nd::state {

class HistoryDb {
 public:
  // kRead needs a file that is there and changes nothing. kWrite makes the file (0600) and brings its tables
  // up to this version.
  enum class Mode { kRead, kWrite };
  static Result<std::unique_ptr<HistoryDb>> Open(const std::string& path, Mode mode);
  ~HistoryDb();

  // All of them, or none.
  Status Add(std::span<const HistoryRow> rows, std::span<const AuditRow> audit);
  // Removes some of what ended before `oldest` or is beyond the newest `most`; how many. 0: nothing is left
  // to remove.
  Result<std::size_t> Trim(UnixTime oldest, std::size_t most);
  Result<HistoryPage> List(const HistoryFilter& filter);
  // Newest first.
  Result<std::vector<AuditRow>> ListAudit(std::size_t limit);

  // How SQLite would find the rows of a filter, one line per step (tests).
  Result<std::string> Plan(const HistoryFilter& filter);

 private:
  class Impl;
  explicit HistoryDb(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd::state
