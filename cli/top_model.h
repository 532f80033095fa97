// SPDX-License-Identifier: Apache-2.0
// What `ndctl top` shows, without a terminal: samples in, lines out.
//
// Traffic counters are of queue pairs that come and go, so a rate is known from the second sample of a
// connection on and a group's rate is the sum of its connections'. One thread; no clock, no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "cli/value.h"

namespace nd::cli {

// One connection at one moment.
struct TopSample {
  std::string id, state, application, peer, adapter, transport;
  double tx_bytes = 0, rx_bytes = 0, operations = 0, stalls = 0, errors = 0, age = 0;
};

enum class TopGroup { kApplication, kPeer, kAdapter };
enum class TopSort { kName, kConnections, kTx, kRx, kOperations, kStalls, kErrors };
const char* Name(TopGroup group);

struct TopRates {
  double tx = 0, rx = 0, operations = 0, stalls = 0, errors = 0;  // Errors are a total, not a rate.
  TopRates& operator+=(const TopRates& other);
};

// The settings that keys change.
struct TopView {
  TopGroup group = TopGroup::kApplication;
  TopSort sort = TopSort::kTx;
  bool ascending = false;
  bool frozen = false;
  std::string filter;                    // In any of a connection's texts, without regard to case.
  std::map<std::string, bool> expanded;  // By name of the group.
  std::size_t selected = 0;              // Line of the list.
};

struct TopLine {
  enum class Kind { kTotal, kHeader, kGroup, kConnection, kNote };
  Kind kind = Kind::kNote;
  std::string text;   // Already as wide as the screen.
  std::string group;  // Name of the group it belongs to; empty on others.
  bool selected = false;
  bool trouble = false;  // Errors, or a connection that is dead and not closed.
};

class TopModel {
 public:
  static constexpr std::size_t kHistory = 60;  // The number of samples that a graph can show.

  // Adds the state of all connections, `seconds` after the previous sample.
  void Add(const std::vector<TopSample>& samples, double seconds);

  // Lines for a screen of `width` columns: a total with its graph, a header, then groups and, where expanded,
  // their connections. At most `height` lines, scrolled so that the selected one is among them.
  // `view.selected` is brought into range.
  std::vector<TopLine> Render(TopView* view, std::size_t width, std::size_t height) const;
  // Number of lines in the list that can be selected, and the group of one of them.
  std::size_t Entries(const TopView& view) const;
  std::string GroupAt(const TopView& view, std::size_t index) const;

 private:
  struct Connection {
    TopSample sample;
    TopRates rates;
  };
  struct Group {
    std::string name;
    TopRates rates;
    std::vector<const Connection*> members;
  };
  std::vector<Group> Groups(const TopView& view) const;
  const std::string& KeyOf(const Connection& connection, TopGroup group) const;

  std::map<std::string, Connection> connections_;
  std::map<std::string, std::deque<double>>
      history_[3];  // By group kind and name: bytes a second, both ways.
  std::deque<double> total_history_;
  bool first_ = true;
};

// The newest `width` values as one character each, scaled to the largest of them.
std::string Sparkline(const std::deque<double>& values, std::size_t width);

}  // namespace nd::cli
