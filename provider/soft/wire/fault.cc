// SPDX-License-Identifier: Apache-2.0
// One table holds the known faults and their names.
#include "provider/soft/wire/fault.h"

#include <algorithm>
#include <string_view>

namespace nd::provider::soft::wire {
namespace {

struct Entry {
  Fault fault;
  std::string_view name;
};

constexpr Entry kNames[] = {
    {fault::kRdmapCatastrophic, "local catastrophic error"},
    {fault::kInvalidStag, "invalid STag"},
    {fault::kBounds, "base or bounds violation"},
    {fault::kAccessRights, "access rights violation"},
    {fault::kStagNotAssociated, "STag not associated with this stream"},
    {fault::kRdmapOffsetWrap, "tagged offset wraps"},
    {fault::kProtectionStagNotInvalidated, "STag cannot be invalidated"},
    {fault::kProtectionUnspecified, "unspecified"},
    {fault::kRdmapVersion, "invalid RDMAP version"},
    {fault::kUnexpectedOpcode, "unexpected opcode"},
    {fault::kStreamCatastrophic, "catastrophic error of this stream"},
    {fault::kGlobalCatastrophic, "catastrophic error of the whole device"},
    {fault::kStagNotInvalidated, "STag cannot be invalidated"},
    {fault::kOperationUnspecified, "unspecified"},
    {fault::kDdpCatastrophic, "local catastrophic error"},
    {fault::kDdpInvalidStag, "invalid STag"},
    {fault::kDdpBounds, "base or bounds violation"},
    {fault::kDdpStagNotAssociated, "STag not associated with this stream"},
    {fault::kDdpOffsetWrap, "tagged offset wraps"},
    {fault::kDdpTaggedVersion, "invalid DDP version"},
    {fault::kInvalidQueue, "invalid queue number"},
    {fault::kNoBuffer, "invalid MSN, no buffer available"},
    {fault::kMsnRange, "invalid MSN, out of range"},
    {fault::kMessageOffset, "invalid message offset"},
    {fault::kMessageTooLong, "message too long for its buffer"},
    {fault::kDdpUntaggedVersion, "invalid DDP version"},
    {fault::kStreamLost, "TCP connection closed, terminated or lost"},
    {fault::kCrc, "CRC mismatch"},
    {fault::kLength, "marker or length mismatch"},
    {fault::kStartFrame, "invalid request or reply frame"},
    {fault::kLocalCatastrophic, "local catastrophic error"},
    {fault::kInsufficientIrd, "insufficient inbound read resources"},
    {fault::kNoCommonRtr, "no common ready-to-receive frame"},
};

std::string_view TypeName(const Fault& fault) {
  constexpr std::string_view kRdmap[] = {"RDMAP local error", "RDMAP remote protection error",
                                         "RDMAP remote operation error"};
  constexpr std::string_view kDdp[] = {"DDP local error", "DDP tagged buffer error",
                                       "DDP untagged buffer error"};
  constexpr std::string_view kLlp[] = {"MPA error"};
  switch (fault.layer) {
    case Layer::kRdmap:
      if (fault.type < std::size(kRdmap)) return kRdmap[fault.type];
      break;
    case Layer::kDdp:
      if (fault.type < std::size(kDdp)) return kDdp[fault.type];
      break;
    case Layer::kLlp:
      if (fault.type < std::size(kLlp)) return kLlp[fault.type];
      break;
  }
  return {};
}

const Entry* Find(const Fault& fault) {
  const auto* found = std::ranges::find(kNames, fault, &Entry::fault);
  return found == std::end(kNames) ? nullptr : found;
}

}  // namespace

std::string Describe(const Fault& fault) {
  const std::string_view type = TypeName(fault);
  std::string text = type.empty() ? "layer " + std::to_string(static_cast<unsigned>(fault.layer)) +
                                        " error type " + std::to_string(fault.type)
                                  : std::string(type);
  const Entry* entry = Find(fault);
  text += ": ";
  text += entry != nullptr ? std::string(entry->name) : "code " + std::to_string(fault.code);
  return text;
}

bool IsKnown(const Fault& fault) {
  return Find(fault) != nullptr;
}

}  // namespace nd::provider::soft::wire
