// SPDX-License-Identifier: Apache-2.0
// Rows in, text out; see select.cc for which rows.
#include "cli/format.h"

#include <algorithm>
#include <cstdlib>

#include "cli/nearest.h"

namespace nd::cli {
namespace {

std::string CellText(const Column& column, const Value& row) {
  const Value* value = row.Find(column.path);
  if (value == nullptr) return {};
  if (column.show == Show::kSeconds && value->is_number())
    return HumanSeconds(std::atof(value->Text().c_str()));
  if (column.show == Show::kBytes && value->is_number()) return HumanBytes(std::atof(value->Text().c_str()));
  return value->Text();
}

Cell MakeCell(const Column& column, const Value& row) {
  Cell cell{CellText(column, row), nullptr};
  if (column.show == Show::kState) cell.color = StateColor(cell.text);
  return cell;
}

bool Right(const Column& column) {
  return column.show == Show::kNumber || column.show == Show::kBytes;
}

Value Envelope(const std::string& kind) {
  Value out = Value::MakeObject();
  out.Set("apiVersion", kApiVersion).Set("kind", kind);
  return out;
}

Failure ColumnsFor(const Shape& shape, const Output& output, std::vector<Column>* columns) {
  if (output.format != Format::kCustom) {
    for (const Column& column : shape.columns) {
      if (!column.wide || output.format == Format::kWide) columns->push_back(column);
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

// "owner.pid: 17" lines for a person.
void AppendCard(const Value& row, const std::string& prefix, Table* table) {
  for (const auto& [key, value] : row.object()) {
    const std::string name = prefix + key;
    if (value.is_object()) {
      AppendCard(value, name + ".", table);
      continue;
    }
    const bool state = key == "state";
    std::string text = value.Text();
    if (key.ends_with("_seconds") && value.is_number()) text = HumanSeconds(std::atof(text.c_str()));
    if (key.ends_with("_bytes") && value.is_number() && text.size() > 4) {
      text += " (" + HumanBytes(std::atof(text.c_str())) + ")";
    }
    table->rows.push_back({{name + ":", nullptr}, {text, state ? StateColor(text) : nullptr}});
  }
}

}  // namespace

Failure Output::Parse(const std::string& text, Output* output) {
  static const std::vector<std::pair<std::string, Format>> kFormats = {
      {"table", Format::kTable}, {"wide", Format::kWide}, {"json", Format::kJson},
      {"jsonl", Format::kJsonl}, {"yaml", Format::kYaml}, {"name", Format::kName}};
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
  Table table;
  for (const Column& column : columns) table.headers.push_back({column.header, Right(column)});
  for (const Value& row : rows) {
    auto& cells = table.rows.emplace_back();
    for (const Column& column : columns) cells.push_back(MakeCell(column, row));
  }
  *text = table.Format(output.headers, output.color);
  return std::nullopt;
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
    case Format::kWide: {
      Table table;
      table.headers = {{"", false}, {"", false}};
      AppendCard(row, "", &table);
      *text = table.Format(false, output.color);
      return std::nullopt;
    }
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
