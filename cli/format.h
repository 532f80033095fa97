// SPDX-License-Identifier: Apache-2.0
// The output formats, in one place: a command hands over rows and never prints by itself.
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

enum class Format { kTable, kWide, kJson, kJsonl, kYaml, kName, kCustom };

struct Output {
  Format format = Format::kTable;
  std::vector<std::string> custom;  // Columns of custom=A,B.
  bool headers = true;
  bool color = false;

  // "table", "wide", "json", "jsonl", "yaml", "name", "custom=COLUMN,..."; a usage error otherwise.
  static Failure Parse(const std::string& text, Output* output);
  bool machine() const {
    return format == Format::kJson || format == Format::kJsonl || format == Format::kYaml;
  }
};

enum class Show : unsigned char { kText, kNumber, kBytes, kSeconds, kState };

struct Column {
  std::string header;
  std::string path;  // Field of the row: "owner.pid".
  Show show = Show::kText;
  bool wide = false;  // Only in wide.
};

// What the rows of one noun are called and how they look.
struct Shape {
  std::string kind;     // "Connection"
  std::string id_path;  // "id"
  std::vector<Column> columns;
  Value sample;  // A row with every field; says which names exist.
};

// The column that `name` means, by its header or by its field; a usage error with the nearest name otherwise.
Failure ResolveColumn(const Shape& shape, const std::string& name, Column* column);

struct Selection {
  std::vector<std::string> filters;  // "state=Connected", "app!=x", "peer=10.*"; all must hold.
  std::string sort;                  // "age", "-tx_bytes"
};

// Keeps and orders the rows that the user asked for. A usage error names an unknown field and the nearest
// one.
Failure Select(const Shape& shape, const Selection& selection, Value::Array* rows);

// The text of a list, of one object, and of a single line in a stream.
Failure FormatList(const Shape& shape, const Value::Array& rows, const Output& output, std::string* text);
Failure FormatOne(const Shape& shape, const Value& row, const Output& output, std::string* text);
Failure FormatLine(const Shape& shape, const Value& row, const Output& output, std::string* text);

// "1.5 GiB", "3d 4h", "12.3 s": for people only.
std::string HumanBytes(double bytes);
std::string HumanSeconds(double seconds);
// "2026-08-22T10:00:00Z" of a time `seconds` ago.
std::string TimeAgo(double seconds);

}  // namespace nd::cli
