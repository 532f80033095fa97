// SPDX-License-Identifier: Apache-2.0
// The file of the history: its tables, writing, queries, removal of old rows.
//
// Every function may wait for the disk. One thread at a time for an object; a reader may be another object,
// even in another process. Statuses: UNSUCCESSFUL with SQLite's reason (IsCorrupt tells damage apart), and
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
  // kRead requires an existing file and changes nothing. kWrite makes the file (0600) and migrates its tables
  // to this version.
  enum class Mode { kRead, kWrite };
  static Result<std::unique_ptr<HistoryDb>> Open(const std::string& path, Mode mode);
  ~HistoryDb();

  // Adds all rows or none.
  Status Add(std::span<const HistoryRow> rows, std::span<const AuditRow> audit);
  // Removes some rows that ended before `oldest` or exceed the newest `most`. Returns their number; 0: none
  // is left.
  Result<std::size_t> Trim(UnixTime oldest, std::size_t most);
  Result<HistoryPage> List(const HistoryFilter& filter);
  // Newest first.
  Result<std::vector<AuditRow>> ListAudit(std::size_t limit);

  // The query plan of a filter, one line per step, for tests.
  Result<std::string> Plan(const HistoryFilter& filter);

 private:
  class Impl;
  explicit HistoryDb(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd::state
