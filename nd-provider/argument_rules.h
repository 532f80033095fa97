// SPDX-License-Identifier: Apache-2.0
// Decisions of the Network Direct provider that need nothing of Windows. All functions are pure.
//
// The parameters of NDSPI begin with the interface number, and some have others in between, so that the n-th
// parameter of the library is not the n-th of NDSPI. Statuses that are not about a numbered parameter stay.
#pragma once

#include <cstdint>
#include <string_view>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::spi {

StatusCode OfCreateCompletionQueue(StatusCode status);
StatusCode OfCreateSharedReceiveQueue(StatusCode status);
StatusCode OfCreateQueuePair(StatusCode status);
StatusCode OfCreateQueuePairWithSrq(StatusCode status);

// Answers that programs expect which were written against some device, where the documentation says
// otherwise. NDBROKER_ND_COMPAT has the words, separated by commas or blanks; unknown words are ignored.
struct Compatibility {
  bool refused = false;  // Accept: CONNECTION_REFUSED in place of CONNECTION_ABORTED.
  bool badnet = false;   // Connect: BAD_NETWORK_NAME in place of INVALID_ADDRESS and NETWORK_UNREACHABLE.
  bool sge = false;      // A queue pair takes two initiator elements when it was made for fewer.
  friend bool operator==(const Compatibility&, const Compatibility&) = default;
};
// Null: none.
Compatibility CompatibilityOf(const char* words);
StatusCode OfAccept(StatusCode status, const Compatibility& compatibility);
StatusCode OfConnect(StatusCode status, const Compatibility& compatibility);
// At most `max`.
std::uint32_t InitiatorSges(std::uint32_t asked, std::uint32_t max, const Compatibility& compatibility);

// True when every flag of Register is one of NDSPI. *access: what the library is to register.
bool SplitRegionFlags(std::uint32_t flags, std::uint32_t* access);

}  // namespace nd::spi
