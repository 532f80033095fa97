// SPDX-License-Identifier: Apache-2.0
// Ends every call of a connection with one refusal, so that the caller receives the reason.
//
// For connections that were refused when they were accepted. Any thread; gRPC's.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace nd::service {

class RefusalService final : public grpc::CallbackGenericService {
 public:
  // Calls end with PERMISSION_DENIED and this message.
  explicit RefusalService(std::string why) : why_(std::move(why)) {}
  // Starts a server with only this service; null when gRPC does not start.
  std::unique_ptr<grpc::Server> Start();

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
  const std::string why_;
};

}  // namespace nd::service
