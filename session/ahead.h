// SPDX-License-Identifier: Apache-2.0
// Operations that make an object ahead, and operations that name such an object.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <variant>

#include "session/operations.h"
#include "session/table.h"

namespace nd::session {

// True when the client does not wait for the answer, which must not depend on free places.
inline bool IsMadeAhead(const Operation& operation) {
  const auto* const queue_pair = std::get_if<CreateQueuePairOp>(&operation);
  const auto* const connector = std::get_if<CreateConnectorOp>(&operation);
  return (queue_pair != nullptr && queue_pair->spare != 0) || (connector != nullptr && connector->spare != 0);
}

// Calls `call` for each member of the operation that is a handle.
template <typename Op, typename Call>
void ForEachHandle(Op& op, const Call& call) {
  const auto visit = [&](auto& member) {
    if constexpr (std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(member)>>, Handle>) {
      call(member);
    }
  };
  std::apply([&](const auto&... field) { (visit(field.In(op)), ...); },
             Table<std::remove_const_t<Op>>::kFields);
}

// The operation with handles in place of names, or no value when it has no names. `handle_of` returns the
// handle of the object that an operation made; a name that it does not know stays, and names nothing.
template <typename HandleOf>
std::optional<Operation> WithHandles(const Operation& operation, const HandleOf& handle_of) {
  bool names = false;
  std::visit([&](const auto& op) { ForEachHandle(op, [&](const Handle& h) { names |= h.made_by() != 0; }); },
             operation);
  if (!names) return std::nullopt;
  std::optional<Operation> known = operation;
  std::visit(
      [&](auto& op) {
        ForEachHandle(op, [&](Handle& h) {
          if (h.made_by() == 0) return;
          if (const Handle found = handle_of(h.made_by())) h = found;
        });
      },
      *known);
  return known;
}

}  // namespace nd::session
