// SPDX-License-Identifier: Apache-2.0
// The part of SQLite that the history uses, with statuses as results.
//
// Status::native is SQLite's primary result code. A Database and its statements: one thread at a time.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nd/status.h"

namespace nd::state {

class Statement;

class Database {
 public:
  // `flags` as of sqlite3_open_v2. Waits up to a second for a lock of another process.
  static Result<Database> Open(const std::string& path, int flags);
  Status Run(const char* sql);
  Result<Statement> Prepare(const std::string& sql);
  // The result of a pragma or of a statement with one number; 0 when there is none.
  Result<std::int64_t> Number(const std::string& sql);
  int changes() const { return sqlite3_changes(db_.get()); }
  explicit operator bool() const { return db_ != nullptr; }
  Database() = default;

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  Status Error(int code) const;
  std::unique_ptr<sqlite3, Close> db_;
};

class Statement {
 public:
  Statement() = default;
  // Numbers of parameters count from 1, of columns from 0.
  void Bind(int index, std::int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }
  // Borrows the text until Finish(), or until the parameter gets another value.
  void Bind(int index, std::string_view value);
  void Bind(int index, std::string&& value) = delete;
  void BindNull(int index) { sqlite3_bind_null(statement_.get(), index); }
  // Returns true when there is a row.
  Result<bool> Step();
  // Runs the statement to its end and resets it.
  Status Finish();
  std::int64_t Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string Text(int column) const;
  bool IsNull(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// True when the file is damaged or not a database, so that it must be replaced.
bool IsCorrupt(const Status& status);

}  // namespace nd::state
