// SPDX-License-Identifier: Apache-2.0
// --filter, --sort and the names of columns.
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/os/wildcard.h"
#include "cli/format.h"
#include "cli/nearest.h"
#include "cli/quantity.h"

namespace nd::cli {
namespace {

void CollectPaths(const Value& value, const std::string& prefix, std::vector<std::string>* paths) {
  for (const auto& [key, child] : value.object()) {
    if (child.is_object() && !child.object().empty()) {
      CollectPaths(child, prefix + key + ".", paths);
    } else {
      paths->push_back(prefix + key);
    }
  }
}

bool SameWord(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

struct Filter {
  std::string path;
  std::string pattern;
  bool negated = false;
  char order = '\0';  // '<' or '>' compares with `bound`; `pattern` and `negated` are then unused.
  bool or_equal = false;
  double bound = 0;
};

// "age>=10s": the order, and the bound in the column's unit.
Failure ParseOrder(const Shape& shape, const std::string& text, std::size_t at, Filter* filter) {
  Column column;
  if (Failure failure = ResolveColumn(shape, text.substr(0, at), &column)) return failure;
  const Value* sample = shape.sample.Find(column.path);
  if (sample == nullptr || !(sample->is_number() || sample->is_null())) {
    return Error{Exit::kUsage,
                 "'" + text + "' compares by size, but " + column.path + " is not a number",
                 "write --filter FIELD=VALUE or FIELD!=VALUE",
                 {}};
  }
  filter->path = column.path;
  filter->order = text[at];
  filter->or_equal = text.compare(at + 1, 1, "=") == 0;
  const bool bytes = column.path.find("bytes") != std::string::npos;
  const bool seconds = column.path.find("seconds") != std::string::npos;
  return ParseQuantity(text.substr(at + (filter->or_equal ? 2 : 1)),
                       bytes ? Unit::kBytes : (seconds ? Unit::kSeconds : Unit::kAny), &filter->bound);
}

Failure ParseFilter(const Shape& shape, const std::string& text, Filter* filter) {
  const std::size_t order = text.find_first_of("<>=");
  if (order != std::string::npos && order > 0 && text[order] != '=') {
    return ParseOrder(shape, text, order, filter);
  }
  const std::size_t equal = order;
  if (equal == std::string::npos || equal == 0) {
    return Error{Exit::kUsage,
                 "'" + text + "' is not a filter",
                 "write --filter FIELD=VALUE, FIELD!=VALUE or FIELD>NUMBER",
                 {}};
  }
  filter->negated = text[equal - 1] == '!';
  Column column;
  const std::string name = text.substr(0, equal - (filter->negated ? 1 : 0));
  if (Failure failure = ResolveColumn(shape, name, &column)) return failure;
  filter->path = column.path;
  filter->pattern = text.substr(equal + 1);
  return std::nullopt;
}

bool Matches(const Filter& filter, const Value& row) {
  const Value* value = row.Find(filter.path);
  if (filter.order != '\0') {
    if (value == nullptr || !value->is_number()) return false;
    const double number = value->Number();
    if (number == filter.bound) return filter.or_equal;
    return filter.order == '<' ? number < filter.bound : number > filter.bound;
  }
  const std::string text = value == nullptr ? std::string() : value->Text();
  const bool match = os::MatchesWildcard(filter.pattern, text) ||
                     // "[::1]:5" would also be a wildcard pattern with another meaning.
                     SameWord(filter.pattern, text);
  return match != filter.negated;
}

}  // namespace

Failure ResolveColumn(const Shape& shape, const std::string& name, Column* column) {
  std::vector<std::string> known;
  for (const Column& candidate : shape.columns) {
    if (SameWord(candidate.header, name) || candidate.path == name) {
      *column = candidate;
      // The name of a field selects its value; the name of a column selects the displayed text.
      const bool human = candidate.show == Show::kBytes || candidate.show == Show::kSeconds ||
                         candidate.show == Show::kShort;
      if (human && !SameWord(candidate.header, name)) column->show = Show::kNumber;
      return std::nullopt;
    }
    known.push_back(candidate.header);
  }
  std::vector<std::string> paths;
  CollectPaths(shape.sample, "", &paths);
  for (const std::string& path : paths) {
    if (path != name) continue;
    column->path = path;
    column->header = path;
    std::transform(path.begin(), path.end(), column->header.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const Value* sample = shape.sample.Find(path);
    column->show = sample->is_number() ? Show::kNumber : Show::kText;
    return std::nullopt;
  }
  known.insert(known.end(), paths.begin(), paths.end());
  return Error{Exit::kUsage, "a " + shape.kind + " has no field '" + name + "'", Suggest(name, known), {}};
}

Failure Select(const Shape& shape, const Selection& selection, Value::Array* rows) {
  for (const std::string& text : selection.filters) {
    Filter filter;
    if (Failure failure = ParseFilter(shape, text, &filter)) return failure;
    std::erase_if(*rows, [&](const Value& row) { return !Matches(filter, row); });
  }
  if (selection.sort.empty()) return std::nullopt;
  const bool descending = selection.sort[0] == '-';
  Column column;
  if (Failure failure = ResolveColumn(shape, selection.sort.substr(descending ? 1 : 0), &column))
    return failure;
  static const Value kNull;
  std::stable_sort(rows->begin(), rows->end(), [&](const Value& a, const Value& b) {
    const Value* x = a.Find(column.path);
    const Value* y = b.Find(column.path);
    const int order = Value::Compare(x == nullptr ? kNull : *x, y == nullptr ? kNull : *y);
    return descending ? order > 0 : order < 0;
  });
  return std::nullopt;
}

}  // namespace nd::cli
