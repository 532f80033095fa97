// SPDX-License-Identifier: Apache-2.0
// The errors of a frame as the Terminate message names them: layer, error type, error code.
#pragma once

#include <cstdint>
#include <string>

namespace nd::provider::soft::wire {

enum class Layer : std::uint8_t { kRdmap = 0, kDdp = 1, kLlp = 2 };

struct Fault {
  Layer layer = Layer::kRdmap;
  std::uint8_t type = 0;  // 4 bits; meaning depends on the layer.
  std::uint8_t code = 0;  // Meaning depends on layer and type.
  friend bool operator==(const Fault&, const Fault&) = default;
};

// RFC 5040 4.8 (RDMAP), RFC 5041 7.2 (DDP), RFC 5044 8 and RFC 6581 8 (LLP = MPA).
namespace fault {
inline constexpr Fault kRdmapCatastrophic{Layer::kRdmap, 0, 0x00};
inline constexpr Fault kInvalidStag{Layer::kRdmap, 1, 0x00};
inline constexpr Fault kBounds{Layer::kRdmap, 1, 0x01};
inline constexpr Fault kAccessRights{Layer::kRdmap, 1, 0x02};
inline constexpr Fault kStagNotAssociated{Layer::kRdmap, 1, 0x03};
inline constexpr Fault kRdmapOffsetWrap{Layer::kRdmap, 1, 0x04};
inline constexpr Fault kProtectionStagNotInvalidated{Layer::kRdmap, 1, 0x09};
inline constexpr Fault kProtectionUnspecified{Layer::kRdmap, 1, 0xFF};
inline constexpr Fault kRdmapVersion{Layer::kRdmap, 2, 0x05};
inline constexpr Fault kUnexpectedOpcode{Layer::kRdmap, 2, 0x06};
inline constexpr Fault kStreamCatastrophic{Layer::kRdmap, 2, 0x07};  // Also: too many Read Requests.
inline constexpr Fault kGlobalCatastrophic{Layer::kRdmap, 2, 0x08};
inline constexpr Fault kStagNotInvalidated{Layer::kRdmap, 2, 0x09};
inline constexpr Fault kOperationUnspecified{Layer::kRdmap, 2, 0xFF};

inline constexpr Fault kDdpCatastrophic{Layer::kDdp, 0, 0x00};
inline constexpr Fault kDdpInvalidStag{Layer::kDdp, 1, 0x00};
inline constexpr Fault kDdpBounds{Layer::kDdp, 1, 0x01};
inline constexpr Fault kDdpStagNotAssociated{Layer::kDdp, 1, 0x02};
inline constexpr Fault kDdpOffsetWrap{Layer::kDdp, 1, 0x03};
inline constexpr Fault kDdpTaggedVersion{Layer::kDdp, 1, 0x04};
inline constexpr Fault kInvalidQueue{Layer::kDdp, 2, 0x01};
inline constexpr Fault kNoBuffer{Layer::kDdp, 2, 0x02};
inline constexpr Fault kMsnRange{Layer::kDdp, 2, 0x03};
inline constexpr Fault kMessageOffset{Layer::kDdp, 2, 0x04};
inline constexpr Fault kMessageTooLong{Layer::kDdp, 2, 0x05};
inline constexpr Fault kDdpUntaggedVersion{Layer::kDdp, 2, 0x06};

inline constexpr Fault kStreamLost{Layer::kLlp, 0, 0x01};
inline constexpr Fault kCrc{Layer::kLlp, 0, 0x02};
inline constexpr Fault kLength{Layer::kLlp, 0, 0x03};
inline constexpr Fault kStartFrame{Layer::kLlp, 0, 0x04};
inline constexpr Fault kLocalCatastrophic{Layer::kLlp, 0, 0x05};
inline constexpr Fault kInsufficientIrd{Layer::kLlp, 0, 0x06};
inline constexpr Fault kNoCommonRtr{Layer::kLlp, 0, 0x07};
}  // namespace fault

// "DDP untagged buffer error: invalid MSN, no buffer available"; numbers where the RFCs have no name.
std::string Describe(const Fault& fault);
// True for every triple that an RFC defines.
bool IsKnown(const Fault& fault);

}  // namespace nd::provider::soft::wire
