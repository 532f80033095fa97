// SPDX-License-Identifier: Apache-2.0
// Functions that run after a while, on one thread of this process that starts with the first of them.
#pragma once

#include <chrono>
#include <functional>

namespace nd::verbs_lib {

// `run` must not wait for long: the next one waits behind it.
void RunLater(std::chrono::nanoseconds delay, std::function<void()> run);

}  // namespace nd::verbs_lib
