// SPDX-License-Identifier: Apache-2.0
// The codec beside the classes that protoc generates from session.proto.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace nd::session {

// Decodes the bytes with both. Empty: the verdicts agree, and so do the messages. Otherwise the difference.
// Messages that are given twice are not compared; see codec.h.
std::string DifferenceAsClientMessage(std::span<const std::byte> bytes);
std::string DifferenceAsServerMessage(std::span<const std::byte> bytes);

}  // namespace nd::session
