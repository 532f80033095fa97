// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/record_sink.h"

#include <algorithm>
#include <chrono>

namespace nd::service {

PhaseSpans SpansOf(const core::PhaseTimes& times) {
  PhaseSpans spans;
  Time from = times.began;
  for (std::size_t i = 0; i < core::kPhases; ++i) {
    if (!times.ended[i]) continue;
    const std::chrono::duration<double> took = *times.ended[i] - from;
    spans.Add({static_cast<core::Phase>(i), std::max(0.0, took.count())});
    from = *times.ended[i];
  }
  return spans;
}

}  // namespace nd::service
