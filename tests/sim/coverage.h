// SPDX-License-Identifier: Apache-2.0
// Counts how often the runs reach each goal. A simulator proves nothing about states that it never reaches.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/action.h"
#include "daemon/core/event.h"
#include "tests/sim/model.h"

namespace nd::sim {

class Coverage {
 public:
  void Saw(const core::Event& event);
  void Saw(const core::Action& action);
  void Moved(Model::State from, Model::State to);
  void Saw(const std::string& group, const std::string& what) { ++counts_[{group, what}]; }
  void Add(const Coverage& other);

  // Returns every goal with its count; zeros are marked.
  std::string Table() const;
  // Returns the goals that were not reached.
  std::vector<std::string> Missing() const;

 private:
  static const std::vector<std::pair<std::string, std::string>>& Wanted();
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;
};

}  // namespace nd::sim
