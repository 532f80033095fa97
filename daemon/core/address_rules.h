// SPDX-License-Identifier: Apache-2.0
// Judgements about addresses and private data that need no state. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::core {

// A destination's shape: INVALID_ADDRESS when malformed or of another family than `local` (when that has
// one).
Status CheckDestinationShape(const Address& remote, const Address& local);

// A well-formed destination that can never be reached: NETWORK_UNREACHABLE (BAD_NETWORK_NAME by switch) for
// the unspecified, multicast and broadcast addresses, CONNECTION_REFUSED for port 0.
Status CheckDestinationUsable(const Address& remote, bool bad_network_name);

// A local address: INVALID_ADDRESS unless it is on the adapter (or unspecified, where that is allowed).
Status CheckLocalAddress(const AdapterInfo& adapter, const Address& local, bool allow_unspecified);

// ACCESS_VIOLATION: `declared` is not what was carried; INVALID_BUFFER_SIZE: more than `max`.
Status CheckPrivateData(std::size_t carried, std::uint32_t declared, std::uint32_t max);

// Failures of Connect after which the same connector may connect again.
bool IsRetryableConnectFailure(StatusCode code);

}  // namespace nd::core
