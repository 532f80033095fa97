// SPDX-License-Identifier: Apache-2.0
// The faults of RFC 5040 and 5041 for the errors of a queue pair, and the reverse. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "nd/status.h"
#include "provider/soft/qp/end_code.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/wire/ddp.h"
#include "provider/soft/wire/fault.h"

namespace nd::provider::soft {

// Why a Write of the peer may not touch the memory that it names.
wire::Fault WriteFault(SoftQueuePair::Refusal why);
// Why a Read Request of the peer may not read the memory that it names.
wire::Fault ReadFault(SoftQueuePair::Refusal why);

// Returns the fault for the Terminate of the side that ends the connection, where the code that found the
// error named no more precise one.
wire::Fault FaultFor(EndCode code);
// Returns the reason in the peer's Terminate, as precisely as the statuses of requests need it.
EndCode EndCodeOf(const wire::Fault& fault);

// `side`: "This side" or "The other side".
Status EndedBy(const char* side, const wire::Fault& fault);

// The position of the started request that sent the segment with this header; absent when there is none.
std::optional<std::uint64_t> RequestOf(const WorkRing<InitiatorRequest>& queue,
                                       const wire::DdpHeader& header);

}  // namespace nd::provider::soft
