// SPDX-License-Identifier: Apache-2.0
// Formats rows as text; select.cc selects the rows.
#include "cli/format.h"

#include <algorithm>
#include <cstdlib>

#include "cli/nearest.h"

namespace nd::cli {
namespace {

// Returns a number with its unit, or no value when the plain text is better.
std::string HumanText(Show show, double number) {
  switch (show) {
    case Show::kSeconds:
      return HumanSeconds(number);
    case Show::kShort:
      return HumanShort(number);
    case Show::kBytes:
      return CompactBytes(number);
    case Show::kCount:
      return CompactCount(number);
    default:
      return {};
  }
}

// "2026-11-21T10:00:00.123Z" as "2026-11-21T10:00:00Z".
std::string WithoutFraction(std::string time) {
  const std::size_t dot = time.find('.');
  if (dot != std::string::npos) time.erase(dot, time.find_first_not_of("0123456789", dot + 1) - dot);
  return time;
}

std::string CellText(const Column& column, const Value& row) {
  const Value* value = row.Find(column.path);
  if (value == nullptr) return {};
  if (column.show == Show::kList && value->is_array() && value->array().empty()) return "none";
  if (column.show == Show::kTime) return WithoutFraction(value->Text());
  std::string text = value->is_number() ? HumanText(column.show, value->Number()) : "";
  return text.empty() ? value->Text() : text;
}

Cell MakeCell(const Column& column, const Value& row) {
  Cell cell{CellText(column, row)};
  if (column.show == Show::kState) cell.color = StateColor(cell.text);
  return cell;
}

bool Right(const Column& column) {
  return column.show == Show::kNumber || column.show == Show::kCount || column.show == Show::kBytes ||
         column.show == Show::kShort;
}

Failure ColumnsFor(const Shape& shape, const Output& output, std::vector<Column>* columns) {
  if (output.format != Format::kCustom) {
    for (const Column& column : shape.columns) {
      const bool wide = output.format == Format::kWide || output.format == Format::kCsv;
      if (column.wide && !wide) continue;
      if (column.when == When::kLive && !output.live) continue;
      if (column.when == When::kOnce && output.live && !wide) continue;
      columns->push_back(column);
    }
    return std::nullopt;
  }
  for (const std::string& name : output.custom) {
    Column column;
    if (Failure failure = ResolveColumn(shape, name, &column)) return failure;
    columns->push_back(column);
  }
  return std::nullopt;
}

std::string IdOf(const Shape& shape, const Value& row) {
  const Value* id = row.Find(shape.id_path);
  return Printable(id == nullptr ? std::string() : id->Text());
}

// The text of a field on a card; the name of the field implies the unit.
std::string CardText(const std::string& key, const Value& value) {
  std::string text = value.Text();
  if (!value.is_number()) return text;
  const double number = value.Number();
  if (key == "seconds") return HumanShort(number);
  if (key.ends_with("_seconds")) return HumanSeconds(number);
  if (key.ends_with("_bytes") && text.size() > 4) text += " (" + HumanBytes(number) + ")";
  return text;
}

// "owner.pid: 17" lines. Items of a list that have a name are lines of their own: "phases.reply: 1.2 ms".
void AppendCard(const Value& row, const std::string& prefix, Table* table) {
  const auto line = [&](const std::string& name, const std::string& key, const Value& value) {
    const std::string text = CardText(key, value);
    table->keys.push_back(name);
    table->rows.push_back({{name + ":"}, {text, key == "state" ? StateColor(text) : nullptr}});
  };
  for (const auto& [key, value] : row.object()) {
    const std::string name = prefix + key;
    if (value.is_object() && !value.object().empty()) {
      AppendCard(value, name + ".", table);
    } else if (value.is_array() && !value.array().empty() && value.array()[0].is_object()) {
      for (const Value& item : value.array()) {
        const Value* item_name = item.Find("name");
        const bool named = item_name != nullptr && item.object().size() == 2;
        if (named) {
          const auto& [last_key, last] = item.object().back();
          line(name + "." + item_name->Text(), last_key, last);
        } else {
          line(name, key, item);
        }
      }
    } else {
      line(name, key, value);
    }
  }
}

// RFC 4180 without line breaks in fields: no text may control the terminal or start a line.
std::string CsvField(std::string text) {
  text = Printable(text);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// Every column, with the name of its field and plain values.
std::string Csv(const std::vector<Column>& columns, const Value::Array& rows, bool headers) {
  std::string out;
  const auto line = [&](const auto& text_of) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      out += (i == 0 ? "" : ",") + CsvField(text_of(columns[i]));
    out += "\n";
  };
  if (headers) line([](const Column& column) { return column.path; });
  for (const Value& row : rows) {
    line([&](const Column& column) {
      const Value* value = row.Find(column.path);
      return value == nullptr ? std::string() : value->Text();
    });
  }
  return out;
}

}  // namespace

Failure Output::Parse(const std::string& text, Output* output) {
  static const std::vector<std::pair<std::string, Format>> kFormats = {
      {"table", Format::kTable}, {"wide", Format::kWide}, {"json", Format::kJson}, {"jsonl", Format::kJsonl},
      {"yaml", Format::kYaml},   {"name", Format::kName}, {"csv", Format::kCsv}};
  for (const auto& [name, format] : kFormats) {
    if (text == name) {
      output->format = format;
      return std::nullopt;
    }
  }
  if (text.starts_with("custom=") && text.size() > 7) {
    output->format = Format::kCustom;
    output->custom.clear();
    for (std::size_t start = 7; start <= text.size();) {
      const std::size_t end = std::min(text.find(',', start), text.size());
      if (end > start) output->custom.push_back(text.substr(start, end - start));
      start = end + 1;
    }
    if (!output->custom.empty()) return std::nullopt;
  }
  std::vector<std::string> names;
  for (const auto& [name, format] : kFormats) names.push_back(name);
  names.push_back("custom=COLUMN,...");
  return Error{Exit::kUsage, "unknown output format '" + text + "'", Suggest(text, names), {}};
}

Failure FormatList(const Shape& shape, const Value::Array& rows, const Output& output, std::string* text) {
  switch (output.format) {
    case Format::kJson:
    case Format::kYaml: {
      Value out = Envelope(shape.kind + "List");
      out.Set("items", rows);
      *text = output.format == Format::kJson ? out.ToJson(2) + "\n" : out.ToYaml();
      return std::nullopt;
    }
    case Format::kJsonl:
    case Format::kName:
      text->clear();
      for (const Value& row : rows) {
        *text += (output.format == Format::kName ? IdOf(shape, row) : row.ToJson(0)) + "\n";
      }
      return std::nullopt;
    default:
      break;
  }
  std::vector<Column> columns;
  if (Failure failure = ColumnsFor(shape, output, &columns)) return failure;
  if (output.format == Format::kCsv) {
    *text = Csv(columns, rows, output.headers);
    return std::nullopt;
  }
  Table table;
  if (Failure failure = ListTable(shape, rows, output, &table)) return failure;
  *text = table.Format(output.headers, output.color);
  return std::nullopt;
}

Failure ListTable(const Shape& shape, const Value::Array& rows, const Output& output, Table* table) {
  std::vector<Column> columns;
  if (Failure failure = ColumnsFor(shape, output, &columns)) return failure;
  for (const Column& column : columns) {
    table->headers.push_back({column.header, Right(column), column.show == Show::kSeconds});
  }
  for (const Value& row : rows) {
    auto& cells = table->rows.emplace_back();
    cells.reserve(columns.size());
    for (const Column& column : columns) cells.push_back(MakeCell(column, row));
    table->keys.push_back(IdOf(shape, row));
  }
  for (std::size_t i = 0; output.format == Format::kTable && i < columns.size(); ++i) {
    if (columns[i].elastic) table->FitInto(kTableWidth, i);
  }
  return std::nullopt;
}

Table CardTable(const Value& row) {
  Table table;
  table.headers = {{""}, {""}};
  AppendCard(row, "", &table);
  return table;
}

Value Envelope(const std::string& kind) {
  Value out = Value::MakeObject();
  out.Set("apiVersion", kApiVersion).Set("kind", kind);
  return out;
}

Failure FormatOne(const Shape& shape, const Value& row, const Output& output, std::string* text) {
  switch (output.format) {
    case Format::kJson:
    case Format::kJsonl:
    case Format::kYaml: {
      Value out = Envelope(shape.kind);
      for (const auto& [key, value] : row.object()) out.Set(key, value);
      *text = output.format == Format::kYaml ? out.ToYaml()
                                             : out.ToJson(output.format == Format::kJson ? 2 : 0) + "\n";
      return std::nullopt;
    }
    case Format::kTable:
    case Format::kWide:
      *text = CardTable(row).Format(false, output.color);
      return std::nullopt;
    default:
      return FormatList(shape, {row}, output, text);
  }
}

Failure FormatLine(const Shape& shape, const Value& row, const Output& output, std::string* text) {
  if (output.format == Format::kJson || output.format == Format::kJsonl) {
    *text = row.ToJson(0) + "\n";
    return std::nullopt;
  }
  if (output.format == Format::kYaml) {
    *text = "---\n" + row.ToYaml();
    return std::nullopt;
  }
  Output line = output;
  line.headers = false;
  return FormatList(shape, {row}, line, text);
}

}  // namespace nd::cli
