// SPDX-License-Identifier: Apache-2.0
// Two reactors for the two ends of a call; the object is destroyed when both are done.
#include "daemon/gateway/relay.h"

#include <atomic>
#include <utility>

#include "daemon/ops/logging.h"

namespace nd::gateway {
namespace {

using grpc::ByteBuffer;

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

class Call {
 public:
  Call(grpc::GenericStub& broker, const grpc::GenericCallbackServerContext& from) : near_(this), far_(this) {
    context_.set_deadline(from.deadline());
    broker.PrepareBidiStreamingCall(&context_, from.method(), {}, &far_);
    // Each direction holds the side of the broker open until it starts no more operations there. Messages of
    // the administrator arrive independently of the state that gRPC keeps for that side.
    far_.AddMultipleHolds(2);
    far_.StartCall();
    far_.StartRead(&answer_);
    near_.StartRead(&request_);
  }
  grpc::ServerGenericBidiReactor* near() { return &near_; }

 private:
  // The side of the administrator.
  struct Near final : grpc::ServerGenericBidiReactor {
    explicit Near(Call* owner) : call(owner) {}
    void OnReadDone(bool ok) override {
      if (ok) {
        call->far_.StartWrite(&call->request_);
      } else {
        call->far_.StartWritesDone();
        call->far_.RemoveHold();
      }
    }
    void OnWriteDone(bool ok) override {
      if (ok) {
        call->far_.StartRead(&call->answer_);
      } else {
        call->context_.TryCancel();
        call->far_.RemoveHold();
      }
    }
    void OnCancel() override { call->context_.TryCancel(); }
    void OnDone() override { call->Release(); }
    Call* const call;
  };
  // The side of the broker.
  struct Far final : grpc::ClientBidiReactor<ByteBuffer, ByteBuffer> {
    explicit Far(Call* owner) : call(owner) {}
    void OnReadDone(bool ok) override {
      if (ok) {
        call->near_.StartWrite(&call->answer_);
      } else {
        RemoveHold();
      }
    }
    void OnWriteDone(bool ok) override {
      if (ok) {
        call->near_.StartRead(&call->request_);
      } else {
        RemoveHold();
      }
    }
    void OnDone(const grpc::Status& status) override {
      call->near_.Finish(status);
      call->Release();
    }
    Call* const call;
  };

  void Release() {
    if (--users_ == 0) delete this;
  }

  grpc::ClientContext context_;
  ByteBuffer request_, answer_;
  Near near_;
  Far far_;
  std::atomic<int> users_{2};
};

}  // namespace

Relay::Relay(std::shared_ptr<grpc::Channel> broker, std::function<Caller(const std::string& peer)> caller_of)
    : broker_(std::move(broker)), caller_of_(std::move(caller_of)) {}

grpc::ServerGenericBidiReactor* Relay::CreateReactor(grpc::GenericCallbackServerContext* context) {
  const Caller caller = caller_of_(context->peer());
  if (!May(caller.role, context->method())) {
    ops::LogWarning("refused", caller.name + " may not call " + context->method());
    return new Refusal(grpc::Status(grpc::StatusCode::PERMISSION_DENIED,
                                    "'" + caller.name + "' has no right to " + context->method() +
                                        " here; the gateway's --admin and --view say who has"));
  }
  if (!May(Role::kViewer, context->method())) ops::LogInfo(caller.name + " calls " + context->method());
  return (new Call(broker_, *context))->near();
}

}  // namespace nd::gateway
