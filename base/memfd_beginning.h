// SPDX-License-Identifier: Apache-2.0
// The first bytes of a segment that is not mapped here.
#pragma once

#include <cstddef>
#include <span>

namespace nd {

// Writes the first bytes of a segment from CreateSealedMemfd(). Returns false when the system refuses.
bool WriteBeginning(int memfd, std::span<const std::byte> bytes);

}  // namespace nd
