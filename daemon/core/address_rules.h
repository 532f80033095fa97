// SPDX-License-Identifier: Apache-2.0
// Checks of addresses and private data. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::core {

// Checks the form of a destination: INVALID_ADDRESS when it is malformed or its family differs from that of
// `local`, if `local` has one.
Status CheckDestinationShape(const Address& remote, const Address& local);

// Rejects well-formed destinations that cannot be reached: NETWORK_UNREACHABLE (or BAD_NETWORK_NAME, by
// setting) for unspecified, multicast and broadcast addresses, CONNECTION_REFUSED for port 0.
Status CheckDestinationUsable(const Address& remote, bool bad_network_name);

// Checks a local address: INVALID_ADDRESS unless the adapter has it, or it is unspecified and that is
// allowed.
Status CheckLocalAddress(const AdapterInfo& adapter, const Address& local, bool allow_unspecified);

// ACCESS_VIOLATION: `declared` differs from the number of bytes carried; INVALID_BUFFER_SIZE: more than
// `max`.
Status CheckPrivateData(std::size_t carried, std::uint32_t declared, std::uint32_t max);

// True for failures of Connect after which the connector may connect again.
bool IsRetryableConnectFailure(StatusCode code);

}  // namespace nd::core
