// SPDX-License-Identifier: Apache-2.0
// The connections of the probe with a broker. Any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/unique_fd.h"

namespace nd::testing {

// A channel to this socket. Calls of a channel without a broker end with UNAVAILABLE.
std::shared_ptr<grpc::Channel> Dial(const std::string& socket);

// Opens the lane of the broker in `directory` and returns the token that came on it; empty: it failed.
std::string ConnectLane(const std::string& directory, UniqueFd* lane);

}  // namespace nd::testing
