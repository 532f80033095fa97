// SPDX-License-Identifier: Apache-2.0
// Static user-space probes for tracers of a running broker (docs/operations.md has the list): one
// no-operation instruction each while no tracer is attached.
//
// Arguments are numbers that are available anyway, so that nothing is computed for them.
#pragma once

#include <cstdint>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#else
// This system has no such probes. The arguments are numbers, and nothing is computed.
#define STAP_PROBE1(program, name, a) static_cast<void>(a)
#define STAP_PROBE2(program, name, a, b) static_cast<void>(a), static_cast<void>(b)
#define STAP_PROBE3(program, name, a, b, c) STAP_PROBE2(program, name, a, b), static_cast<void>(c)
#define STAP_PROBE4(program, name, a, b, c, d) STAP_PROBE3(program, name, a, b, c), static_cast<void>(d)
#define STAP_PROBE5(program, name, a, b, c, d, e) STAP_PROBE4(program, name, a, b, c, d), static_cast<void>(e)
#endif

namespace nd::ops {

template <typename T>
inline std::int64_t ProbeValue(T value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace nd::ops

// NDB_PROBE(hand_off, a, b): one to five numbers or enumerators.
#define NDB_PROBE(name, ...) NDB_PROBE_PICK(__VA_ARGS__, 5, 4, 3, 2, 1)(name, __VA_ARGS__)
#define NDB_PROBE_PICK(a, b, c, d, e, n, ...) NDB_PROBE_##n
#define NDB_PROBE_1(name, a) STAP_PROBE1(ndbroker, name, ::nd::ops::ProbeValue(a))
#define NDB_PROBE_2(name, a, b) \
  STAP_PROBE2(ndbroker, name, ::nd::ops::ProbeValue(a), ::nd::ops::ProbeValue(b))
#define NDB_PROBE_3(name, a, b, c) \
  STAP_PROBE3(ndbroker, name, ::nd::ops::ProbeValue(a), ::nd::ops::ProbeValue(b), ::nd::ops::ProbeValue(c))
#define NDB_PROBE_4(name, a, b, c, d)                                                                       \
  STAP_PROBE4(ndbroker, name, ::nd::ops::ProbeValue(a), ::nd::ops::ProbeValue(b), ::nd::ops::ProbeValue(c), \
              ::nd::ops::ProbeValue(d))
#define NDB_PROBE_5(name, a, b, c, d, e)                                                                    \
  STAP_PROBE5(ndbroker, name, ::nd::ops::ProbeValue(a), ::nd::ops::ProbeValue(b), ::nd::ops::ProbeValue(c), \
              ::nd::ops::ProbeValue(d), ::nd::ops::ProbeValue(e))
