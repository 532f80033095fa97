// SPDX-License-Identifier: Apache-2.0
// An atomic operation on 8 bytes of memory that was checked.
//
// Any thread and any process that maps the memory may do the same at the same time: it is one instruction of
// the processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

// `at` is a multiple of 8. Returns the value before.
inline std::uint64_t Operate(std::byte* at, bool compares, const Operands& operands) {
  auto* const word = reinterpret_cast<std::uint64_t*>(at);
  if (!compares) return __atomic_fetch_add(word, operands.value, __ATOMIC_SEQ_CST);
  std::uint64_t before = operands.compare;
  __atomic_compare_exchange_n(word, &before, operands.value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return before;
}

}  // namespace nd::provider::soft
