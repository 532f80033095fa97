// SPDX-License-Identifier: Apache-2.0
// Binding a TCP socket, with the reason when the system refuses. Any thread.
#pragma once

#include <string_view>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::os {

// `place` has the addresses: "this host", or the name of a network of it. INVALID_ADDRESS: `at` is malformed
// or not an address of the place. SHARING_VIOLATION, ACCESS_DENIED, INSUFFICIENT_RESOURCES.
Status Bind(int socket, const Address& at, std::string_view place);
// The same sentence for an `error` of listen(), which also takes the port.
Status BindFailure(int error, const Address& at, std::string_view place);

}  // namespace nd::os
