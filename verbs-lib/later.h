// SPDX-License-Identifier: Apache-2.0
// Functions that run after a while, on one thread of this process that starts with the first of them.
#pragma once

#include <chrono>
#include <functional>

namespace nd::verbs_lib {

// `run` must be quick: the next function waits for its end.
void RunLater(std::chrono::nanoseconds delay, std::function<void()> run);

}  // namespace nd::verbs_lib
