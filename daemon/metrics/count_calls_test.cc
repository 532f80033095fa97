// SPDX-License-Identifier: Apache-2.0
// A real server of Admin: every response counts once by its outcome, and invented method names do not grow
// the table.
#include "daemon/metrics/count_calls.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <vector>

#include "nd/status.h"
#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::service {
namespace {

namespace pb = ndbroker::v1;

class Fake final : public pb::Admin::CallbackService {
 public:
  grpc::ServerUnaryReactor* KillConnection(grpc::CallbackServerContext* context,
                                           const pb::KillRequest* request, pb::Outcome* reply) override {
    auto* reactor = context->DefaultReactor();
    if (request->id() == "bad") {
      reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, "no id"});
    } else {
      const StatusCode code = request->id() == "gone" ? StatusCode::kInvalidHandle : StatusCode::kSuccess;
      reply->mutable_status()->set_code(static_cast<std::uint32_t>(code));
      reactor->Finish(grpc::Status::OK);
    }
    return reactor;
  }
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const pb::GetStatusRequest*,
                                      pb::BrokerStatus*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

TEST(AdminTally, CountsEachAnswerByItsOutcome) {
  AdminTally tally;
  Fake fake;
  grpc::ServerBuilder builder;
  builder.RegisterService(&fake);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(CountCalls(tally));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const std::shared_ptr<grpc::Channel> channel = server->InProcessChannel({});
  const auto stub = pb::Admin::NewStub(channel);
  for (const char* id : {"good", "good", "gone", "bad"}) {
    grpc::ClientContext context;
    pb::KillRequest request;
    request.set_id(id);
    pb::Outcome outcome;
    static_cast<void>(stub->KillConnection(&context, request, &outcome));
  }
  {
    grpc::ClientContext context;
    pb::BrokerStatus status;
    EXPECT_TRUE(stub->GetStatus(&context, {}, &status).ok());
  }
  {
    grpc::ClientContext context;  // A method that the test service does not override.
    pb::PortList ports;
    EXPECT_EQ(stub->ListPorts(&context, {}, &ports).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  for (const char* invented : {"/ndbroker.v1.Admin/Invented", "/a.b/C", "/x"}) {
    grpc::ClientContext context;
    grpc::GenericStub generic(channel);
    grpc::CompletionQueue queue;
    const auto call = generic.PrepareUnaryCall(&context, invented, {}, &queue);
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag;
    bool ok;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  AdminTally::Counts counts = tally.counts();
  EXPECT_EQ((counts[{"KillConnection", "SUCCESS"}]), 2u);
  EXPECT_EQ((counts[{"KillConnection", "INVALID_HANDLE"}]), 1u);
  EXPECT_EQ((counts[{"KillConnection", "INVALID_ARGUMENT"}]), 1u);
  EXPECT_EQ((counts[{"GetStatus", "SUCCESS"}]), 1u);
  EXPECT_EQ((counts[{"ListPorts", "UNIMPLEMENTED"}]), 1u);
  for (const auto& [call, count] : counts) {
    EXPECT_TRUE(call.first == "other" || call.first == "KillConnection" || call.first == "GetStatus" ||
                call.first == "ListPorts")
        << call.first;
  }
  server->Shutdown();
}

}  // namespace
}  // namespace nd::service
