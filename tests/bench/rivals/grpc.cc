// SPDX-License-Identifier: Apache-2.0
// gRPC over a unix socket, with messages of SIZE bytes that nobody parses.
//   call     one unary call after the other
//   calls    8 calls at once
//   channel  a new channel and its first call
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>

#include "tests/bench/rivals/rival.h"

namespace nd::rivals {
namespace {

constexpr char kMethod[] = "/bench/Echo";
constexpr int kAtOnce = 8;

class Echo final : public grpc::ServerGenericBidiReactor {
 public:
  Echo() { StartRead(&bytes_); }
  void OnReadDone(bool well) override {
    if (well) {
      StartWriteAndFinish(&bytes_, {}, grpc::Status::OK);
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer bytes_;
};

class EchoService final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Echo;
  }
};

void Serve(const std::string& address, std::atomic<int>& ready) {
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) Fail("gRPC", "the server did not start");
  ready = 1;
  server->Wait();
}

grpc::ByteBuffer Bytes(std::size_t size) {
  const grpc::Slice slice(std::string(size, 'x'));
  return {&slice, 1};
}

class Client {
 public:
  explicit Client(const std::string& address) : stub_(Channel(address)) {}

  void Call(const grpc::ByteBuffer& request) {
    grpc::ClientContext context;
    const auto call = stub_.PrepareUnaryCall(&context, kMethod, request, &queue_);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool well = false;
    if (!queue_.Next(&tag, &well) || !status.ok()) Fail("gRPC", status.error_message().c_str());
  }

  // Keeps kAtOnce calls under way until the time is over. Returns how many ended.
  int CallMany(const grpc::ByteBuffer& request, double seconds) {
    end_ = Now() + seconds;
    under_way_ = kAtOnce;
    for (int i = 0; i < kAtOnce; ++i) Start(request);
    std::unique_lock lock(mutex_);
    over_.wait(lock, [this] { return under_way_ == 0; });
    return count_;
  }

 private:
  static std::shared_ptr<grpc::Channel> Channel(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  void Start(const grpc::ByteBuffer& request) {
    struct State {
      grpc::ClientContext context;
      grpc::ByteBuffer response;
    };
    auto* state = new State;
    stub_.UnaryCall(&state->context, kMethod, {}, &request, &state->response,
                    [this, state, &request](const grpc::Status& status) {
                      if (!status.ok()) Fail("gRPC", status.error_message().c_str());
                      delete state;
                      {
                        const std::lock_guard lock(mutex_);
                        ++count_;
                        if (Now() >= end_) {
                          if (--under_way_ == 0) over_.notify_one();
                          return;
                        }
                      }
                      Start(request);
                    });
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::mutex mutex_;
  std::condition_variable over_;
  double end_ = 0;
  int under_way_ = 0, count_ = 0;
};

void Run(const Arguments& arguments) {
  const Plan& plan = arguments.plan;
  const std::string address = "unix-abstract:nd-bench-" + std::to_string(getpid());
  auto& ready = Share<std::atomic<int>>();
  const Peer peer(plan.peer_cpu, [&] { Serve(address, ready); });
  floors::PinTo(plan.cpu);
  while (ready == 0) usleep(1000);
  const grpc::ByteBuffer request = Bytes(plan.size);
  if (arguments.what == "channel") {
    const double seconds = floors::MedianOfBatches(plan, 1, [&] { Client(address).Call(request); });
    Print(seconds * 1e6, "us");
    return;
  }
  Client client(address);
  for (int i = 0; i < 100; ++i) client.Call(request);
  if (arguments.what == "call") {
    Print(floors::MedianOfBatches(plan, 1, [&] { client.Call(request); }) * 1e6, "us");
    return;
  }
  const double begin = Now();
  const int count = client.CallMany(request, plan.seconds);
  Print(count / (Now() - begin), "per_s");
}

}  // namespace
}  // namespace nd::rivals

int main(int argc, char** argv) {
  const auto arguments = nd::rivals::ParseArguments(argc, argv);
  if (arguments.what != "call" && arguments.what != "calls" && arguments.what != "channel") {
    nd::rivals::Fail(arguments.what.c_str(), "neither call nor calls nor channel");
  }
  nd::rivals::Run(arguments);
  return 0;
}
