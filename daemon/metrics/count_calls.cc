// SPDX-License-Identifier: Apache-2.0
// Counts with an interceptor of gRPC, which sees every call, including calls of unknown methods.
#include "daemon/metrics/count_calls.h"

#include <array>
#include <optional>

#include "nd/status.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::service {
namespace {

namespace pb = ndbroker::v1;
using grpc::experimental::InterceptionHookPoints;

std::string_view Name(grpc::StatusCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "SUCCESS",   "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

const google::protobuf::MethodDescriptor* MethodOf(std::string_view path) {
  static const google::protobuf::ServiceDescriptor* const kAdmin =
      pb::Outcome::descriptor()->file()->FindServiceByName("Admin");
  const std::string prefix = "/" + kAdmin->full_name() + "/";
  if (!path.starts_with(prefix)) return nullptr;
  return kAdmin->FindMethodByName(std::string(path.substr(prefix.size())));
}

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  Interceptor(AdminTally& tally, const char* path) : tally_(tally), method_(MethodOf(path)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = batch->GetSendStatus();
      std::string_view told = Name(status.error_code());
      const bool outcome = method_ != nullptr && method_->output_type() == pb::Outcome::descriptor();
      if (status.ok() && outcome &&
          batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
        const auto* message = static_cast<const pb::Outcome*>(batch->GetSendMessage());
        if (message != nullptr) told = nd::Name(static_cast<StatusCode>(message->status().code()));
      }
      tally_.Add(method_ != nullptr ? std::string_view(method_->name()) : "other", told);
    }
    batch->Proceed();
  }

 private:
  AdminTally& tally_;
  const google::protobuf::MethodDescriptor* const method_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(AdminTally& tally) : tally_(tally) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new Interceptor(tally_, info->method());
  }

 private:
  AdminTally& tally_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CountCalls(AdminTally& tally) {
  return std::make_unique<Factory>(tally);
}

}  // namespace nd::service
