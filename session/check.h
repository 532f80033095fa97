// SPDX-License-Identifier: Apache-2.0
// Checks messages of clients before the broker acts on them. Pure functions.
//
// No value is trusted: a number too large for its type, an unknown enumerator or a missing
// operation is an error and never a truncation. Malformed addresses are passed on, because the core judges
// them.
#pragma once

#include "nd/status.h"
#include "session/operations.h"

namespace nd::session {

// SUCCESS when a message after the first has an operation. NOT_SUPPORTED: none that this version knows;
// INVALID_DEVICE_REQUEST: a second Hello; INVALID_PARAMETER: a field with an impossible value, or op_id 0.
Status CheckOperation(const ClientMessage& message);
// Returns the operation, or the status of CheckOperation().
Result<Operation> TakeOperation(ClientMessage message);

// Returns the Hello of the first message. ACCESS_DENIED: the token does not have kTokenBytes; NOT_SUPPORTED:
// no common version; INVALID_PARAMETER: the application's name, or op_id 0; INVALID_DEVICE_REQUEST: not a
// Hello.
Result<Hello> TakeHello(ClientMessage message);

}  // namespace nd::session
