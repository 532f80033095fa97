// SPDX-License-Identifier: Apache-2.0
// Apart from the screen so that sorting, grouping, rates and widths can be tested as plain values.
#include "cli/top_model.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>
#include <tuple>

#include "cli/format.h"
#include "cli/table.h"

namespace nd::cli {
namespace {

constexpr std::size_t kNumber = 9;  // Width of a column of numbers.
constexpr std::size_t kColumns = 6;
constexpr std::size_t kGraph = 12;
constexpr std::array<const char*, kColumns> kTitles = {"CONNS", "TX/s", "RX/s", "OPS/s", "STALL/s", "ERRORS"};

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string Fit(std::string_view text, std::size_t width) {
  std::string out = Printable(text);
  if (DisplayWidth(out) > width) {
    while (!out.empty() && DisplayWidth(out) + 1 > width) {
      do out.pop_back();
      while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80);
    }
    if (width > 0) out += "~";
  }
  const std::size_t used = DisplayWidth(out);
  return used < width ? out + std::string(width - used, ' ') : out;
}

std::string Right(const std::string& text) {
  return text.size() >= kNumber ? " " + text : std::string(kNumber - text.size(), ' ') + text;
}

std::string Count(double value) {
  return value >= 10000 ? CompactBytes(value * 1.024) : std::to_string(std::llround(value));
}

std::string Numbers(const TopRates& rates, std::size_t connections, bool known) {
  if (!known)
    return Right(std::to_string(connections)) + Right("-") + Right("-") + Right("-") + Right("-") +
           Right(Count(rates.errors));
  return Right(std::to_string(connections)) + Right(CompactBytes(rates.tx)) + Right(CompactBytes(rates.rx)) +
         Right(Count(rates.operations)) + Right(Count(rates.stalls)) + Right(Count(rates.errors));
}

bool Trouble(const TopSample& sample) {
  return sample.errors > 0 || sample.state == "Dead";
}

double Grown(double now, double before, double seconds) {
  // A counter that went back belongs to a new queue pair, or lies.
  return now >= before && seconds > 0 ? (now - before) / seconds : 0;
}

void Push(std::deque<double>* history, double value) {
  history->push_back(value);
  if (history->size() > TopModel::kHistory) history->pop_front();
}

double Weight(const TopRates& rates, std::size_t connections, TopSort sort) {
  switch (sort) {
    case TopSort::kConnections:
      return static_cast<double>(connections);
    case TopSort::kTx:
      return rates.tx;
    case TopSort::kRx:
      return rates.rx;
    case TopSort::kOperations:
      return rates.operations;
    case TopSort::kStalls:
      return rates.stalls;
    case TopSort::kErrors:
      return rates.errors;
    case TopSort::kName:
      break;
  }
  return 0;
}

}  // namespace

const char* Name(TopGroup group) {
  switch (group) {
    case TopGroup::kApplication:
      return "APPLICATION";
    case TopGroup::kPeer:
      return "PEER";
    case TopGroup::kAdapter:
      return "ADAPTER";
  }
  return "?";
}

TopRates& TopRates::operator+=(const TopRates& other) {
  tx += other.tx;
  rx += other.rx;
  operations += other.operations;
  stalls += other.stalls;
  errors += other.errors;
  return *this;
}

std::string Sparkline(const std::deque<double>& values, std::size_t width) {
  static constexpr std::array<const char*, 9> kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t shown = std::min(width, values.size());
  const auto from = values.end() - static_cast<std::ptrdiff_t>(shown);
  const double top = shown == 0 ? 0 : *std::max_element(from, values.end());
  std::string out(width - shown, ' ');
  for (auto it = from; it != values.end(); ++it) {
    // A value above zero always gets a visible bar.
    const int bar = top <= 0 || *it <= 0 ? 0 : std::max(1, static_cast<int>(*it / top * 8));
    out += kBars[static_cast<std::size_t>(bar)];
  }
  return out;
}

const std::string& TopModel::KeyOf(const Connection& connection, TopGroup group) const {
  if (group == TopGroup::kPeer) return connection.sample.peer;
  return group == TopGroup::kAdapter ? connection.sample.adapter : connection.sample.application;
}

void TopModel::Add(const std::vector<TopSample>& samples, double seconds) {
  std::map<std::string, Connection> next;
  std::map<std::string, double> sums[3];
  double total = 0;
  for (const TopSample& sample : samples) {
    Connection connection;
    connection.sample = sample;
    connection.rates.errors = sample.errors;
    if (const auto old = connections_.find(sample.id); old != connections_.end()) {
      const TopSample& before = old->second.sample;
      connection.rates.tx = Grown(sample.tx_bytes, before.tx_bytes, seconds);
      connection.rates.rx = Grown(sample.rx_bytes, before.rx_bytes, seconds);
      connection.rates.operations = Grown(sample.operations, before.operations, seconds);
      connection.rates.stalls = Grown(sample.stalls, before.stalls, seconds);
    }
    const double both = connection.rates.tx + connection.rates.rx;
    total += both;
    for (const TopGroup group : {TopGroup::kApplication, TopGroup::kPeer, TopGroup::kAdapter}) {
      sums[static_cast<std::size_t>(group)][KeyOf(connection, group)] += both;
    }
    next[sample.id] = std::move(connection);
  }
  connections_ = std::move(next);
  first_ = seconds <= 0;
  if (first_) return;
  Push(&total_history_, total);
  for (std::size_t kind = 0; kind < 3; ++kind) {
    std::erase_if(history_[kind], [&](const auto& entry) { return !sums[kind].contains(entry.first); });
    for (const auto& [name, sum] : sums[kind]) Push(&history_[kind][name], sum);
  }
}

std::vector<TopModel::Group> TopModel::Groups(const TopView& view) const {
  std::map<std::string, Group> found;
  const std::string wanted = Lower(view.filter);
  for (const auto& [id, connection] : connections_) {
    const TopSample& s = connection.sample;
    const std::string all =
        s.id + " " + s.state + " " + s.application + " " + s.peer + " " + s.adapter + " " + s.transport;
    if (!wanted.empty() && Lower(all).find(wanted) == std::string::npos) continue;
    Group& group = found[KeyOf(connection, view.group)];
    group.name = KeyOf(connection, view.group);
    group.rates += connection.rates;
    group.members.push_back(&connection);
  }
  std::vector<Group> groups;
  for (auto& [name, group] : found) groups.push_back(std::move(group));
  // By name where the weights are equal, so that lines do not dance.
  const auto before = [&](const TopRates& a, std::size_t n, const TopRates& b, std::size_t m) {
    const double x = Weight(a, n, view.sort), y = Weight(b, m, view.sort);
    return view.ascending ? x < y : x > y;
  };
  const bool by_name = view.sort == TopSort::kName;
  if (by_name && view.ascending) std::ranges::reverse(groups);
  if (!by_name) {
    std::ranges::stable_sort(groups, [&](const Group& a, const Group& b) {
      return before(a.rates, a.members.size(), b.rates, b.members.size());
    });
  }
  for (Group& group : groups) {
    std::ranges::stable_sort(group.members, [&](const Connection* a, const Connection* b) {
      return !by_name && before(a->rates, 1, b->rates, 1);
    });
  }
  return groups;
}

std::size_t TopModel::Entries(const TopView& view) const {
  std::size_t count = 0;
  for (const Group& group : Groups(view)) {
    const auto open = view.expanded.find(group.name);
    count += 1 + (open != view.expanded.end() && open->second ? group.members.size() : 0);
  }
  return count;
}

std::string TopModel::GroupAt(const TopView& view, std::size_t index) const {
  for (const Group& group : Groups(view)) {
    const auto open = view.expanded.find(group.name);
    const std::size_t size = 1 + (open != view.expanded.end() && open->second ? group.members.size() : 0);
    if (index < size) return group.name;
    index -= size;
  }
  return {};
}

std::vector<TopLine> TopModel::Render(TopView* view, std::size_t width, std::size_t height) const {
  const std::vector<Group> groups = Groups(*view);
  const std::size_t numbers = kNumber * kColumns;
  const bool graphs = width >= numbers + kGraph + 30;
  const std::size_t taken = numbers + (graphs ? kGraph + 1 : 0);
  const std::size_t name = width > taken + 8 ? width - taken : 8;
  TopRates total;
  std::size_t connections = 0, trouble = 0;
  for (const Group& group : groups) {
    total += group.rates;
    connections += group.members.size();
    for (const Connection* c : group.members) trouble += Trouble(c->sample) ? 1 : 0;
  }
  std::vector<TopLine> list;
  std::size_t entry = 0;
  for (const Group& group : groups) {
    const auto found = view->expanded.find(group.name);
    const bool open = found != view->expanded.end() && found->second;
    TopLine line;
    line.kind = TopLine::Kind::kGroup;
    line.group = group.name;
    line.trouble = std::ranges::any_of(group.members, [](const Connection* c) { return Trouble(c->sample); });
    line.text = Fit((open ? "- " : "+ ") + (group.name.empty() ? std::string("(none)") : group.name), name) +
                Numbers(group.rates, group.members.size(), !first_);
    if (graphs) {
      const auto history = history_[static_cast<std::size_t>(view->group)].find(group.name);
      line.text += " " + Sparkline(history == history_[static_cast<std::size_t>(view->group)].end()
                                       ? std::deque<double>{}
                                       : history->second,
                                   kGraph);
    }
    line.selected = entry++ == view->selected;
    list.push_back(std::move(line));
    for (const Connection* c : open ? group.members : std::vector<const Connection*>{}) {
      TopLine member;
      member.kind = TopLine::Kind::kConnection;
      member.group = group.name;
      member.trouble = Trouble(c->sample);
      const std::string other = view->group == TopGroup::kPeer ? c->sample.application : c->sample.peer;
      member.text =
          Fit("    " + c->sample.id + " " + c->sample.state + " " + other + " " + c->sample.transport, name) +
          Numbers(c->rates, 1, !first_) + (graphs ? std::string(kGraph + 1, ' ') : std::string());
      member.selected = entry++ == view->selected;
      list.push_back(std::move(member));
    }
  }
  if (!list.empty() && view->selected >= list.size()) {
    view->selected = list.size() - 1;
    list.back().selected = true;
  }

  std::vector<TopLine> lines;
  const std::string say = std::to_string(connections) + " connections" +
                          (trouble == 0 ? std::string() : ", " + std::to_string(trouble) + " in trouble") +
                          ", " +
                          (first_ ? std::string("measuring")
                                  : "tx " + HumanBytes(total.tx) + "/s, rx " + HumanBytes(total.rx) + "/s") +
                          (view->filter.empty() ? std::string() : ", only \"" + view->filter + "\"") +
                          (view->frozen ? ", frozen" : "");
  const std::size_t graph = width > DisplayWidth(say) + 22 ? 20 : 0;
  lines.push_back({TopLine::Kind::kTotal,
                   Fit(say, width - graph) + (graph > 0 ? Sparkline(total_history_, graph) : ""),
                   {},
                   false,
                   false});
  std::string header = Fit(Name(view->group), name);
  for (const char* const title : kTitles) header += Right(title);
  lines.push_back({TopLine::Kind::kHeader, Fit(header + (graphs ? " TX+RX" : ""), width), {}, false, false});
  if (list.empty()) {
    lines.push_back(
        {TopLine::Kind::kNote,
         Fit(view->filter.empty() ? "there is no connection" : "no connection matches the filter", width),
         {},
         false,
         false});
  }
  const std::size_t room = height > lines.size() ? height - lines.size() : 0;
  const std::size_t first = view->selected >= room && room > 0 ? view->selected - room + 1 : 0;
  for (std::size_t i = first; i < list.size() && i < first + room; ++i) lines.push_back(std::move(list[i]));
  if (lines.size() > height) lines.resize(height);
  return lines;
}

}  // namespace nd::cli
