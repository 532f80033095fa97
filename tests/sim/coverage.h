// SPDX-License-Identifier: Apache-2.0
// What a run has reached. A simulator that never gets somewhere proves nothing about that place.
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

  // Everything that must be reached, with its count; zeros are marked.
  std::string Table() const;
  // What must be reached and was not.
  std::vector<std::string> Missing() const;

 private:
  static const std::vector<std::pair<std::string, std::string>>& Wanted();
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;
};

}  // namespace nd::sim
