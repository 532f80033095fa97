// SPDX-License-Identifier: Apache-2.0
// The output formats: a command passes rows and does not print itself.
//
// The JSON is a contract: {"apiVersion":"ndbroker/v1","kind":"ConnectionList","items":[...]}, names in
// snake_case, numbers as numbers, times in RFC 3339 UTC; within v1 fields are only added.
#pragma once

#include <string>
#include <vector>

#include "cli/error.h"
#include "cli/table.h"
#include "cli/value.h"

namespace nd::cli {

inline constexpr char kApiVersion[] = "ndbroker/v1";

enum class Format { kTable, kWide, kJson, kJsonl, kYaml, kName, kCsv, kCustom };

struct Output {
  Format format = Format::kTable;
  std::vector<std::string> custom;  // Columns of custom=A,B.
  bool headers = true;
  bool color = false;
  bool live = false;  // Shows the columns that need two readings.

  // "table", "wide", "json", "jsonl", "yaml", "name", "csv", "custom=COLUMN,..."; a usage error otherwise.
  static Failure Parse(const std::string& text, Output* output);
  bool machine() const {
    return format == Format::kJson || format == Format::kJsonl || format == Format::kYaml;
  }
};

// kCount is exact below 100000 and 790K above. kList shows "-" for an absent list and "none" for an empty
// one; kTime leaves out fractions of seconds.
enum class Show : unsigned char { kText, kNumber, kCount, kBytes, kSeconds, kShort, kState, kList, kTime };

// Rates need two readings and replace totals in --watch; wide shows both.
enum class When : unsigned char { kAlways, kOnce, kLive };

struct Column {
  std::string header;
  std::string path;  // Field of the row: "owner.pid".
  Show show = Show::kText;
  bool wide = false;  // Only in wide.
  When when = When::kAlways;
  bool elastic = false;  // Shortened when lines of the table would exceed kTableWidth.
};
inline constexpr std::size_t kTableWidth = 100;

// The name and the columns of the rows of one noun.
struct Shape {
  std::string kind;     // "Connection"
  std::string id_path;  // "id"
  std::vector<Column> columns;
  Value sample;  // A row with every field, which defines the valid names.
};

// The column that `name` means, by its header or by its field; a usage error with the nearest name otherwise.
Failure ResolveColumn(const Shape& shape, const std::string& name, Column* column);

struct Selection {
  std::vector<std::string> filters;  // "state=Connected", "app!=x", "peer=10.*", "tx>1MiB"; all must hold.
  std::string sort;                  // "age", "-tx_bytes"
};

// Keeps and orders the rows that the user asked for. A usage error names an unknown field and the nearest
// one.
Failure Select(const Shape& shape, const Selection& selection, Value::Array* rows);

// The text of a list, of one object, and of a single line in a stream.
Failure FormatList(const Shape& shape, const Value::Array& rows, const Output& output, std::string* text);
Failure FormatOne(const Shape& shape, const Value& row, const Output& output, std::string* text);
Failure FormatLine(const Shape& shape, const Value& row, const Output& output, std::string* text);

// The tables behind the formats for people; `keys` are set, so that --watch can mark what changed.
Failure ListTable(const Shape& shape, const Value::Array& rows, const Output& output, Table* table);
Table CardTable(const Value& row);
// {"apiVersion": ..., "kind": kind}, to be filled.
Value Envelope(const std::string& kind);

// For display only: sizes in powers of 1024 ("1.5 GiB"), durations ("3d4h", "12s") and short times ("45.1
// us", "1.3 ms").
std::string HumanBytes(double bytes);
std::string CompactBytes(double bytes);  // "1.5G", for columns.
std::string CompactCount(double count);  // "99999", "790K", "1.5M": powers of 1000, for columns.
std::string HumanSeconds(double seconds);
std::string HumanShort(double seconds);
// "2026-08-22T10:00:00Z" of a time `seconds` ago.
std::string TimeAgo(double seconds);

}  // namespace nd::cli
