// SPDX-License-Identifier: Apache-2.0
// ndctl's line to a broker: the Admin service on DIR/admin.sock, or behind the gateway of another host.
//
// Each call has a deadline. A broker that is not there, does not answer or does not permit it is told apart
// before and after the call, and named with the path that was tried.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cli/error.h"
#include "cli/remote.h"
#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::cli {

class AdminClient {
 public:
  using Stub = ndbroker::v1::Admin::Stub;

  AdminClient(std::string directory, double timeout_seconds);
  // Of another host, through its gateway.
  AdminClient(Remote remote, double timeout_seconds);

  // UNREACHABLE, PERMISSION_DENIED, or a usage error for a path that no socket can have.
  Failure Connect();

  template <typename Request, typename Response>
  Failure Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
               const Request& request, Response* response) {
    if (Failure failure = Connect()) return failure;
    grpc::ClientContext context;
    SetDeadline(&context);
    return FromGrpc((stub_.get()->*method)(&context, request, response));
  }

  // For streams: valid after Connect().
  Stub& stub() { return *stub_; }
  Failure FromGrpc(const grpc::Status& status);

  const std::string& directory() const { return directory_; }

 private:
  void SetDeadline(grpc::ClientContext* context) const;
  Failure Unreachable(const std::string& why) const;
  Failure TooOld();
  Failure Dial(UniqueFd* fd) const;
  Failure DialLocal(UniqueFd* fd) const;

  std::string directory_;
  std::string path_;
  std::optional<Remote> remote_;
  double timeout_seconds_;
  std::unique_ptr<Stub> stub_;
};

}  // namespace nd::cli
