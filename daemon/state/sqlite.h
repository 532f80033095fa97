// SPDX-License-Identifier: Apache-2.0
// The little of SQLite that the history uses, with its results as statuses.
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
  // `flags` as of sqlite3_open_v2. A lock of another process is waited for, for a second.
  static Result<Database> Open(const std::string& path, int flags);
  Status Run(const char* sql);
  Result<Statement> Prepare(const std::string& sql);
  // Of a pragma, or of any statement with one number; 0 when there is none.
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
  void Bind(int index, std::string_view value);
  void BindNull(int index) { sqlite3_bind_null(statement_.get(), index); }
  // True: there is a row.
  Result<bool> Step();
  // Runs it to its end and makes it ready for the next values.
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

// The file is damaged or no database; another one has to take its place.
bool IsCorrupt(const Status& status);

}  // namespace nd::state
