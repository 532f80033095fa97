// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/argument_rules.h"

#include <algorithm>

namespace nd::spi {

StatusCode OfCreateCompletionQueue(StatusCode status) {
  return status == StatusCode::kInvalidParameter1 ? StatusCode::kInvalidParameter3 : status;
}

StatusCode OfCreateSharedReceiveQueue(StatusCode status) {
  switch (status) {
    case StatusCode::kInvalidParameter1:
      return StatusCode::kInvalidParameter3;
    case StatusCode::kInvalidParameter2:
      return StatusCode::kInvalidParameter4;
    default:
      return status;
  }
}

StatusCode OfCreateQueuePair(StatusCode status) {
  switch (status) {
    case StatusCode::kInvalidParameter1:
      return StatusCode::kInvalidParameter2;
    case StatusCode::kInvalidParameter2:
      return StatusCode::kInvalidParameter3;
    default:
      return status;
  }
}

StatusCode OfCreateQueuePairWithSrq(StatusCode status) {
  switch (status) {
    case StatusCode::kInvalidParameter3:
      return StatusCode::kInvalidParameter4;
    case StatusCode::kInvalidParameter8:
      return StatusCode::kInvalidParameter7;
    case StatusCode::kInvalidParameter9:
      return StatusCode::kInvalidParameter8;
    default:
      return OfCreateQueuePair(status);
  }
}

Compatibility CompatibilityOf(const char* words) {
  Compatibility chosen;
  std::string_view rest = words == nullptr ? "" : words;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(", "), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (word == "refused") chosen.refused = true;
    if (word == "badnet") chosen.badnet = true;
    if (word == "sge") chosen.sge = true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return chosen;
}

StatusCode OfAccept(StatusCode status, const Compatibility& compatibility) {
  return compatibility.refused && status == StatusCode::kConnectionAborted ? StatusCode::kConnectionRefused
                                                                           : status;
}

StatusCode OfConnect(StatusCode status, const Compatibility& compatibility) {
  const bool no_way = status == StatusCode::kNetworkUnreachable || status == StatusCode::kInvalidAddress;
  return compatibility.badnet && no_way ? StatusCode::kBadNetworkName : status;
}

std::uint32_t InitiatorSges(std::uint32_t asked, std::uint32_t max, const Compatibility& compatibility) {
  constexpr std::uint32_t kTwo = 2;
  return compatibility.sge && asked < kTwo ? std::min(kTwo, max) : asked;
}

bool SplitRegionFlags(std::uint32_t flags, std::uint32_t* access) {
  constexpr std::uint32_t kRights = kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink;
  constexpr std::uint32_t kDoNotSecureMemory = 0x80000000;
  *access = flags & kRights;
  return (flags & ~(kRights | kDoNotSecureMemory)) == 0;
}

}  // namespace nd::spi
