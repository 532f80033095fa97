// SPDX-License-Identifier: Apache-2.0
// The rules for short buffers, which differ between the dialects and between addresses and private data
// (docs/behaviour.md, b.5). Every getter that fills a buffer of the application uses them.
//
// `*length` is the size of the buffer on entry and the size of the data on return. `ndk` selects the dialect.
// ACCESS_VIOLATION: `length` is null, or the buffer is null and its length is not 0.
#pragma once

#include <cstddef>
#include <span>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::client {

// A short buffer receives the beginning of the data: BUFFER_OVERFLOW, or with `ndk` BUFFER_TOO_SMALL. With
// `ndk` a buffer of length 0 asks for the size and gets SUCCESS, and a null buffer with a length
// INVALID_PARAMETER.
Status CopyPrivateData(std::span<const std::byte> data, void* buffer, std::size_t* length, bool ndk);
// The address as a sockaddr. A short buffer receives nothing: BUFFER_OVERFLOW, or with `ndk`
// BUFFER_TOO_SMALL.
Status CopyAddress(const Address& address, void* buffer, std::size_t* length, bool ndk);

}  // namespace nd::client
