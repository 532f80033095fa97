// SPDX-License-Identifier: Apache-2.0
// Forwards each call of a remote administrator to the broker, message by message, without knowledge of their
// types.
//
// Any thread; gRPC's.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "daemon/gateway/roles.h"

namespace nd::gateway {

struct Caller {
  Role role = Role::kNone;
  std::string name;  // For the log and for messages.
};

class Relay final : public grpc::CallbackGenericService {
 public:
  // `caller_of` returns the caller by grpc::ServerContext::peer().
  Relay(std::shared_ptr<grpc::Channel> broker, std::function<Caller(const std::string& peer)> caller_of);

  // Ends with PERMISSION_DENIED, or the status of the broker; UNAVAILABLE when there is no broker.
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

 private:
  grpc::GenericStub broker_;
  const std::function<Caller(const std::string& peer)> caller_of_;
};

}  // namespace nd::gateway
