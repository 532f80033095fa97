// SPDX-License-Identifier: Apache-2.0
// Rows to SQL and back. Each filter has an index that also gives the order, so that no list reads the whole
// table.
#include "daemon/state/history_db.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <functional>

#include "base/os/error_text.h"
#include "base/os/file.h"
#include "base/unique_fd.h"
#include "daemon/state/sqlite.h"

namespace nd::state {
namespace {

// Each entry migrates the tables from the version of its index to the next. Entries are only appended.
constexpr std::array kMigrations = {
    R"(CREATE TABLE connection (
         number INTEGER PRIMARY KEY,
         id TEXT NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL, established INTEGER,
         local_ip TEXT NOT NULL, local_port INTEGER NOT NULL,
         peer_ip TEXT NOT NULL, peer_port INTEGER NOT NULL, passive INTEGER NOT NULL,
         pid INTEGER NOT NULL, uid INTEGER NOT NULL, command TEXT NOT NULL, application TEXT NOT NULL,
         unit TEXT NOT NULL, container TEXT NOT NULL, cgroup TEXT NOT NULL,
         adapter TEXT NOT NULL, transport TEXT NOT NULL,
         outcome TEXT NOT NULL, status TEXT NOT NULL, detail TEXT NOT NULL, reason TEXT NOT NULL,
         tx_bytes INTEGER NOT NULL, rx_bytes INTEGER NOT NULL,
         tx_sends INTEGER NOT NULL, rx_sends INTEGER NOT NULL,
         tx_writes INTEGER NOT NULL, rx_writes INTEGER NOT NULL,
         tx_reads INTEGER NOT NULL, rx_reads INTEGER NOT NULL,
         errors INTEGER NOT NULL, stalls INTEGER NOT NULL, wakeups INTEGER NOT NULL,
         phases TEXT NOT NULL,
         shown TEXT NOT NULL,
         failed INTEGER NOT NULL);
       CREATE INDEX connection_ended ON connection (ended);
       CREATE INDEX connection_shown ON connection (shown, ended);
       CREATE INDEX connection_peer ON connection (peer_ip, ended);
       CREATE INDEX connection_adapter ON connection (adapter, ended);
       CREATE INDEX connection_failed ON connection (failed, ended);
       CREATE TABLE audit (
         number INTEGER PRIMARY KEY,
         at INTEGER NOT NULL, uid INTEGER NOT NULL, pid INTEGER NOT NULL,
         type TEXT NOT NULL, object TEXT NOT NULL, outcome TEXT NOT NULL, message TEXT NOT NULL);
       CREATE INDEX audit_at ON audit (at);)",
};

// In the order of the columns above.
constexpr char kColumns[] =
    "id, started, ended, established, local_ip, local_port, peer_ip, peer_port, passive, pid, uid, command, "
    "application, unit, container, cgroup, adapter, transport, outcome, status, detail, reason, tx_bytes, "
    "rx_bytes, tx_sends, rx_sends, tx_writes, rx_writes, tx_reads, rx_reads, errors, stalls, wakeups, phases";
constexpr int kColumnCount = 34;
constexpr std::size_t kTrimStep = 500;

// "queue:0.000012 connect:0.0003"
std::string PhasesText(const std::vector<PhaseRow>& phases) {
  std::string text;
  for (const PhaseRow& phase : phases) {
    std::array<char, 40> number{};
    const auto end = std::to_chars(number.data(), number.data() + number.size(), phase.seconds);
    if (!text.empty()) text += ' ';
    text.append(phase.name).append(1, ':').append(number.data(), end.ptr);
  }
  return text;
}

std::vector<PhaseRow> ParsePhases(std::string_view text) {
  std::vector<PhaseRow> phases;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t colon = word.find(':');
    if (colon == word.npos) continue;
    PhaseRow phase{std::string(word.substr(0, colon)), 0};
    std::from_chars(word.data() + colon + 1, word.data() + word.size(), phase.seconds);
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::string IpText(const Address& address) {
  return address.well_formed() ? address.IpToString() : "";
}

Address AddressOf(const std::string& ip, std::int64_t port) {
  const Result<Address> parsed = Address::Parse(ip);
  return parsed.ok() ? parsed->WithPort(static_cast<std::uint16_t>(port)) : Address();
}

std::int64_t Signed(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

// Texts that are made from a row; the statement borrows them.
struct RowTexts {
  explicit RowTexts(const HistoryRow& row)
      : local_ip(IpText(row.local)), peer_ip(IpText(row.peer)), phases(PhasesText(row.phases)) {}
  const std::string local_ip, peer_ip, phases;
};

void BindRow(Statement& s, const HistoryRow& row, const RowTexts& texts) {
  int at = 0;
  s.Bind(++at, row.id);
  s.Bind(++at, row.started);
  s.Bind(++at, row.ended);
  row.established ? s.Bind(++at, *row.established) : s.BindNull(++at);
  s.Bind(++at, texts.local_ip);
  s.Bind(++at, row.local.port());
  s.Bind(++at, texts.peer_ip);
  s.Bind(++at, row.peer.port());
  s.Bind(++at, row.passive ? 1 : 0);
  s.Bind(++at, row.pid);
  s.Bind(++at, row.uid);
  for (const std::string* text :
       {&row.command, &row.application, &row.unit, &row.container, &row.cgroup, &row.adapter, &row.transport,
        &row.outcome, &row.status, &row.detail, &row.reason}) {
    s.Bind(++at, *text);
  }
  for (const std::uint64_t number :
       {row.tx_bytes, row.rx_bytes, row.tx_sends, row.rx_sends, row.tx_writes, row.rx_writes, row.tx_reads,
        row.rx_reads, row.errors, row.stalls, row.wakeups}) {
    s.Bind(++at, Signed(number));
  }
  s.Bind(++at, texts.phases);
  s.Bind(++at, row.application.empty() ? row.command : row.application);
  s.Bind(++at, row.outcome == "failed" || row.outcome == "broken" ? 1 : 0);
}

HistoryRow ReadRow(const Statement& s) {
  HistoryRow row;
  int at = 0;
  row.id = s.Text(at++);
  row.started = s.Int(at++);
  row.ended = s.Int(at++);
  if (!s.IsNull(at)) row.established = s.Int(at);
  ++at;
  row.local = AddressOf(s.Text(at), s.Int(at + 1));
  row.peer = AddressOf(s.Text(at + 2), s.Int(at + 3));
  at += 4;
  row.passive = s.Int(at++) != 0;
  row.pid = static_cast<std::uint32_t>(s.Int(at++));
  row.uid = static_cast<std::uint32_t>(s.Int(at++));
  for (std::string* text :
       {&row.command, &row.application, &row.unit, &row.container, &row.cgroup, &row.adapter, &row.transport,
        &row.outcome, &row.status, &row.detail, &row.reason}) {
    *text = s.Text(at++);
  }
  for (std::uint64_t* number :
       {&row.tx_bytes, &row.rx_bytes, &row.tx_sends, &row.rx_sends, &row.tx_writes, &row.rx_writes,
        &row.tx_reads, &row.rx_reads, &row.errors, &row.stalls, &row.wakeups}) {
    *number = static_cast<std::uint64_t>(s.Int(at++));
  }
  row.phases = ParsePhases(s.Text(at));
  return row;
}

// The statement of a filter and its parameters, in order.
struct Query {
  std::string sql;
  std::vector<std::function<void(Statement&, int)>> binds;
};

Query QueryOf(const HistoryFilter& filter) {
  Query query;
  std::string where;
  const auto add = [&](const char* condition, std::function<void(Statement&, int)> bind) {
    where += (where.empty() ? " WHERE " : " AND ") + std::string(condition);
    query.binds.push_back(std::move(bind));
  };
  const auto text = [](std::string value) {
    return [value = std::move(value)](Statement& s, int at) { s.Bind(at, value); };
  };
  const auto number = [](std::int64_t value) { return [value](Statement& s, int at) { s.Bind(at, value); }; };
  // SQLite uses the most selective column; a unary plus keeps it from using the index of another.
  const bool by_peer = filter.peer.well_formed();
  const bool by_application = !by_peer && !filter.application.empty();
  const bool by_failed = !by_peer && !by_application && filter.failed_only;
  const bool by_adapter = !by_peer && !by_application && !by_failed && !filter.adapter.empty();
  if (by_peer) add("peer_ip = ?", text(filter.peer.IpToString()));
  if (by_peer && filter.peer.port() != 0) add("peer_port = ?", number(filter.peer.port()));
  if (!filter.application.empty()) add(by_application ? "shown = ?" : "+shown = ?", text(filter.application));
  if (filter.failed_only) add(by_failed ? "failed = ?" : "+failed = ?", number(1));
  if (!filter.adapter.empty()) add(by_adapter ? "adapter = ?" : "+adapter = ?", text(filter.adapter));
  if (filter.since) add("ended >= ?", number(*filter.since));
  if (filter.until) add("ended <= ?", number(*filter.until));
  query.sql = std::string("SELECT ") + kColumns + " FROM connection" + where +
              " ORDER BY ended DESC, number DESC LIMIT " + std::to_string(std::uint64_t{filter.limit} + 1);
  return query;
}

Status Prepared(Database& db, const std::string& sql, Statement* out) {
  Result<Statement> statement = db.Prepare(sql);
  if (statement.ok()) *out = std::move(statement.value());
  return statement.status();
}

// SQLite would make the file 0644, but its contents are private.
Status MakeFile(const std::string& path) {
  const int error = os::EnsureFile(path);
  if (error == 0) return {};
  return {StatusCode::kUnsuccessful, "cannot open " + path + ": " + os::ErrorText(error)};
}

}  // namespace

class HistoryDb::Impl {
 public:
  Database db;
  Statement insert, audit, trim_old, trim_many, trim_audit_old, trim_audit_many;

  Status Migrate();
  Status PrepareWriting();
};

Status HistoryDb::Impl::Migrate() {
  Result<std::int64_t> version = db.Number("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const auto known = static_cast<std::int64_t>(kMigrations.size());
  if (*version < 0 || *version > known) {
    return {StatusCode::kNotSupported, "the file has version " + std::to_string(*version) +
                                           " and this program knows versions up to " + std::to_string(known) +
                                           "; use a newer program or give another file"};
  }
  for (; *version < known; ++*version) {
    const std::string sql = "BEGIN IMMEDIATE;" +
                            std::string(kMigrations[static_cast<std::size_t>(*version)]) +
                            "PRAGMA user_version = " + std::to_string(*version + 1) + "; COMMIT;";
    if (Status status = db.Run(sql.c_str()); !status.ok()) {
      static_cast<void>(db.Run("ROLLBACK"));
      return status;
    }
  }
  return {};
}

Status HistoryDb::Impl::PrepareWriting() {
  std::string marks;
  for (int i = 0; i < kColumnCount + 2; ++i) marks += i == 0 ? "?" : ", ?";
  const std::string step = std::to_string(kTrimStep);
  Status status = Prepared(
      db, "INSERT INTO connection (" + std::string(kColumns) + ", shown, failed) VALUES (" + marks + ")",
      &insert);
  if (status.ok()) {
    status = Prepared(
        db, "INSERT INTO audit (at, uid, pid, type, object, outcome, message) VALUES (?, ?, ?, ?, ?, ?, ?)",
        &audit);
  }
  for (auto [table, column, old, many] : {std::tuple{"connection", "ended", &trim_old, &trim_many},
                                          std::tuple{"audit", "at", &trim_audit_old, &trim_audit_many}}) {
    const std::string from =
        std::string("DELETE FROM ") + table + " WHERE number IN (SELECT number FROM " + table;
    if (status.ok()) {
      status =
          Prepared(db, from + " WHERE " + column + " < ? ORDER BY " + column + " LIMIT " + step + ")", old);
    }
    if (status.ok()) {
      status = Prepared(db,
                        from + " WHERE number <= (SELECT max(number) FROM " + table +
                            ") - ? ORDER BY number LIMIT " + step + ")",
                        many);
    }
  }
  return status;
}

HistoryDb::HistoryDb(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HistoryDb::~HistoryDb() = default;

Result<std::unique_ptr<HistoryDb>> HistoryDb::Open(const std::string& path, Mode mode) {
  const bool writes = mode == Mode::kWrite;
  if (writes) {
    if (Status made = MakeFile(path); !made.ok()) return made;
  }
  auto impl = std::make_unique<Impl>();
  Result<Database> db = Database::Open(path, writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
  if (!db.ok()) return db.status();
  impl->db = std::move(db.value());
  if (writes) {
    // The log is bounded, and a commit does not wait for the disk, because no row is needed for recovery.
    Status status = impl->db.Run(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;"
        "PRAGMA temp_store = MEMORY;");
    if (status.ok()) status = impl->Migrate();
    if (status.ok()) status = impl->PrepareWriting();
    if (!status.ok()) return status;
  }
  return std::unique_ptr<HistoryDb>(new HistoryDb(std::move(impl)));
}

Status HistoryDb::Add(std::span<const HistoryRow> rows, std::span<const AuditRow> audit) {
  Status status = impl_->db.Run("BEGIN IMMEDIATE");
  for (auto row = rows.begin(); status.ok() && row != rows.end(); ++row) {
    const RowTexts texts(*row);
    BindRow(impl_->insert, *row, texts);
    status = impl_->insert.Finish();
  }
  for (auto row = audit.begin(); status.ok() && row != audit.end(); ++row) {
    Statement& s = impl_->audit;
    s.Bind(1, row->at);
    s.Bind(2, row->uid);
    s.Bind(3, row->pid);
    s.Bind(4, row->type);
    s.Bind(5, row->object);
    s.Bind(6, row->outcome);
    s.Bind(7, row->message);
    status = s.Finish();
  }
  if (status.ok()) status = impl_->db.Run("COMMIT");
  if (!status.ok()) static_cast<void>(impl_->db.Run("ROLLBACK"));
  return status;
}

Result<std::size_t> HistoryDb::Trim(UnixTime oldest, std::size_t most) {
  std::size_t removed = 0;
  Status status = impl_->db.Run("BEGIN IMMEDIATE");  // One round of file locks for the four.
  if (!status.ok()) return status;
  for (auto [statement, value] :
       {std::pair{&impl_->trim_old, oldest}, std::pair{&impl_->trim_many, static_cast<std::int64_t>(most)},
        std::pair{&impl_->trim_audit_old, oldest},
        std::pair{&impl_->trim_audit_many, static_cast<std::int64_t>(most)}}) {
    statement->Bind(1, value);
    status = statement->Finish();
    if (!status.ok()) break;
    removed += static_cast<std::size_t>(impl_->db.changes());
  }
  if (status.ok()) status = impl_->db.Run("COMMIT");
  if (!status.ok()) static_cast<void>(impl_->db.Run("ROLLBACK"));
  if (!status.ok()) return status;
  return removed;
}

Result<HistoryPage> HistoryDb::List(const HistoryFilter& filter) {
  const Query query = QueryOf(filter);
  Statement s;
  if (Status status = Prepared(impl_->db, query.sql, &s); !status.ok()) return status;
  int at = 0;
  for (const auto& bind : query.binds) bind(s, ++at);
  HistoryPage page;
  for (;;) {
    const Result<bool> row = s.Step();
    if (!row.ok()) return row.status();
    if (!*row) return page;
    if (page.rows.size() == filter.limit) {
      page.truncated = true;
      return page;
    }
    page.rows.push_back(ReadRow(s));
  }
}

Result<std::vector<AuditRow>> HistoryDb::ListAudit(std::size_t limit) {
  Statement s;
  if (Status status = Prepared(impl_->db,
                               "SELECT at, uid, pid, type, object, outcome, message FROM audit "
                               "ORDER BY at DESC, number DESC LIMIT ?",
                               &s);
      !status.ok()) {
    return status;
  }
  s.Bind(1, static_cast<std::int64_t>(limit));
  std::vector<AuditRow> rows;
  for (;;) {
    const Result<bool> row = s.Step();
    if (!row.ok()) return row.status();
    if (!*row) return rows;
    rows.push_back({s.Int(0), static_cast<std::uint32_t>(s.Int(1)), static_cast<std::uint32_t>(s.Int(2)),
                    s.Text(3), s.Text(4), s.Text(5), s.Text(6)});
  }
}

Result<std::string> HistoryDb::Plan(const HistoryFilter& filter) {
  const Query query = QueryOf(filter);
  Statement s;
  if (Status status = Prepared(impl_->db, "EXPLAIN QUERY PLAN " + query.sql, &s); !status.ok()) return status;
  std::string plan;
  for (;;) {
    const Result<bool> row = s.Step();
    if (!row.ok()) return row.status();
    if (!*row) return plan;
    plan += s.Text(3) + "\n";
  }
}

}  // namespace nd::state
