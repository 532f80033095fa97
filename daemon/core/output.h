// SPDX-License-Identifier: Apache-2.0
// The actions of one step. All parts of the broker append to the same list.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "daemon/core/action.h"

namespace nd::core {

class Output {
 public:
  // Null while no step is running; nothing may be emitted then.
  void set_actions(Actions* actions) { actions_ = actions; }
  template <typename A>
  void Emit(A&& action) {
    actions_->emplace_back(std::forward<A>(action));
  }
  // Emits an action that is made in its place. Valid until the next one is emitted.
  template <typename A>
  A& Make() {
    return std::get<A>(actions_->emplace_back(std::in_place_type<A>));
  }
  void Note(Notice::Level level, std::string_view type, std::string object, std::string message) {
    Emit(Notice{level, type, std::move(object), std::move(message)});
  }

 private:
  Actions* actions_ = nullptr;
};

}  // namespace nd::core
