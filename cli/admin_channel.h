// SPDX-License-Identifier: Apache-2.0
// A gRPC channel over a socket that is connected already. One thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "base/unique_fd.h"

namespace nd::cli {

class AdminChannel {
 public:
  // `connection`: a stream socket, as os::ConnectLocal() makes it. The channel is null when the system has
  // no memory or descriptor left; errno tells which.
  explicit AdminChannel(UniqueFd connection);
  // Ends the connection; on Windows it ends with the process. Calls and stubs of the channel have ended.
  ~AdminChannel();
  AdminChannel(const AdminChannel&) = delete;
  AdminChannel& operator=(const AdminChannel&) = delete;

  const std::shared_ptr<grpc::Channel>& get() const { return channel_; }

 private:
  struct Forwarding;  // Between the connection and gRPC, on systems where gRPC cannot have it.

  std::unique_ptr<Forwarding> forwarding_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace nd::cli
