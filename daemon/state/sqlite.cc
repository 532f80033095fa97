// SPDX-License-Identifier: Apache-2.0
// The C interface of SQLite with ownership and checks.
#include "daemon/state/sqlite.h"

namespace nd::state {

Status Database::Error(int code) const {
  const char* const text = db_ ? sqlite3_errmsg(db_.get()) : sqlite3_errstr(code);
  return {StatusCode::kUnsuccessful, text, Detail::kNone, code & 0xFF};
}

Result<Database> Database::Open(const std::string& path, int flags) {
  // Nobody asks SQLite how much memory it has, and counting takes a mutex for each block.
  [[maybe_unused]] static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  Database out;
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  out.db_.reset(db);
  if (code != SQLITE_OK) return out.Error(code);
  sqlite3_busy_timeout(db, 1000);
  return out;
}

Status Database::Run(const char* sql) {
  const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status() : Error(code);
}

Result<Statement> Database::Prepare(const std::string& sql) {
  Statement out;
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(db_.get(), sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr);
  out.statement_.reset(statement);
  if (code != SQLITE_OK) return Error(code);
  return out;
}

Result<std::int64_t> Database::Number(const std::string& sql) {
  Result<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const Result<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  return *row ? statement->Int(0) : 0;
}

void Statement::Bind(int index, std::string_view value) {
  sqlite3_bind_text(statement_.get(), index, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
}

Result<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Status(StatusCode::kUnsuccessful, sqlite3_errmsg(sqlite3_db_handle(statement_.get())), Detail::kNone,
                code & 0xFF);
}

Status Statement::Finish() {
  Result<bool> row = Step();
  while (row.ok() && *row) row = Step();
  sqlite3_reset(statement_.get());
  return row.status();
}

std::string Statement::Text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_.get(), column);
  return text == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(text),
                           static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

bool IsCorrupt(const Status& status) {
  return status.native() == SQLITE_CORRUPT || status.native() == SQLITE_NOTADB;
}

}  // namespace nd::state
