// SPDX-License-Identifier: Apache-2.0
// What differs between systems in a gRPC server. What a call on it names as its peer is what PeerOfCall()
// (service/peer.h) reads.
#pragma once

#include <grpcpp/grpcpp.h>

#include "base/unique_fd.h"

namespace nd::service {

// `stream`: a connected socket of kind kStream that nobody watches. The server owns it from now on; a
// connection that it refuses is closed.
void ServeConnection(grpc::Server& server, UniqueFd stream);

// Servers that are built from now on list their services to a client that asks. Nothing on Windows, whose
// gRPC is built without TLS: gRPC's library for it needs the one with TLS.
void OfferReflection();

}  // namespace nd::service
