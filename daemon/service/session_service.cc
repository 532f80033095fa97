// SPDX-License-Identifier: Apache-2.0
// Reads ahead of the loop only so far, so that a flood waits in the client's socket and not in our memory.
#include "daemon/service/session_service.h"

#include <utility>

#include "base/locate.h"
#include "daemon/service/hello.h"
#include "daemon/service/outbox.h"

namespace nd::service {
namespace {

constexpr std::uint32_t kReadAhead = 128;  // Operations read and not yet taken by the loop.

grpc::Status ToGrpc(const Status& why) {
  switch (why.code()) {
    case StatusCode::kSuccess:
      return grpc::Status::OK;
    case StatusCode::kAccessDenied:
      return {grpc::StatusCode::UNAUTHENTICATED, why.ToString()};
    case StatusCode::kInsufficientResources:
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, why.ToString()};
    case StatusCode::kInvalidParameter:
    case StatusCode::kInvalidDeviceRequest:
    case StatusCode::kNotSupported:
      return {grpc::StatusCode::FAILED_PRECONDITION, why.ToString()};
    case StatusCode::kDeviceNotReady:
      return {grpc::StatusCode::UNAVAILABLE, why.ToString()};
    default:
      return {grpc::StatusCode::ABORTED, why.ToString()};
  }
}

class SessionStream final
    : public Outbox<grpc::ServerBidiReactor<pb::ClientMessage, pb::ServerMessage>, pb::ServerMessage>,
      public SessionSink {
 public:
  SessionStream(grpc::CallbackServerContext* context, EventLoop& loop, BrokerShell& shell,
                const SessionService::Options& options)
      : Outbox(context), loop_(loop), shell_(shell), options_(options), peer_(PeerOfCall(context->peer())) {}

  void Start(std::shared_ptr<SessionStream> self) {
    self_ = std::move(self);
    if (!peer_) {
      loop_.Post(
          [this, self = self_] { shell_.doors()[kBrokerSocketName].Refuse(ops::Refusal::kCredentials); });
      return FinishAfterQueue({grpc::StatusCode::PERMISSION_DENIED,
                               "the kernel does not say who is calling; use the broker's Unix socket"});
    }
    ReadNext();
  }

  // ---- The loop's side.
  bool Send(pb::ServerMessage message) override {
    const std::size_t bytes = message.ByteSizeLong();
    return Enqueue(std::move(message), bytes, options_.queue_bytes) != Put::kFull;
  }
  void End(const Status& why) override { FinishAfterQueue(ToGrpc(why)); }
  void Cut() override { FinishNow({grpc::StatusCode::CANCELLED, "the client did not read to the end"}); }
  void Taken() override {
    {
      std::lock_guard lock(ahead_mutex_);
      --ahead_;
    }
    Resume();
  }

  // ---- gRPC's side.
  void OnReadDone(bool ok) override {
    if (!ok) {
      // gRPC does not tell a message that it cannot read from the end of the stream. Before Hello neither is
      // how a session begins, and a client must not take it for success.
      FinishAfterQueue(hello_said_ ? grpc::Status::OK
                                   : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                                  "the stream's first message must be a Hello; there was "
                                                  "none, or it is no ndbroker.v1.ClientMessage"));
      return PostEnd(Status(StatusCode::kConnectionDisconnected, "the client ended its stream"));
    }
    if (!(hello_said_ ? HandleOperation() : HandleHello())) return;
    if (!Pause()) ReadNext();
  }
  void OnWriteDone(bool ok) override {
    Outbox::OnWriteDone(ok);
    {
      std::lock_guard lock(ahead_mutex_);
      ++written_;
    }
    Resume();
  }
  void OnCancel() override {
    // First the mark, then the post: a Hello that is on its way to the loop sees the one or comes before the
    // other.
    Outbox::OnCancel();
    PostEnd(Status(StatusCode::kConnectionDisconnected, "the client's stream broke"));
  }
  void OnDone() override { self_.reset(); }

 private:
  void ReadNext() {
    if (!Pin()) return;
    in_.Clear();
    StartRead(&in_);
    Unpin();
  }

  // True: the client has to wait until Resume().
  bool Pause() {
    std::lock_guard lock(ahead_mutex_);
    // Looked at under the lock: whatever lowers them afterwards sees that we paused.
    const bool unread = waiting() > options_.queue_bytes / 2;
    paused_ = unread || ahead_ >= kReadAhead;
    if (unread && !std::exchange(watched_, true)) {
      loop_.Post([this, self = self_, seen = written_] { EndIfNothingIsWritten(self, seen); });
    }
    return paused_;
  }
  void Resume() {
    {
      std::lock_guard lock(ahead_mutex_);
      if (!paused_ || ahead_ > kReadAhead / 2 || waiting() > options_.queue_bytes / 4) return;
      paused_ = false;
    }
    ReadNext();
  }
  // On the loop; looks again and again while the client has to wait.
  void EndIfNothingIsWritten(std::shared_ptr<SessionStream> self, std::uint64_t seen) {
    loop_.At(loop_.clock().Now() + kReaderPatience, [this, self = std::move(self), seen] {
      std::uint64_t now;
      {
        std::lock_guard lock(ahead_mutex_);
        now = written_;
        watched_ = paused_ && !ending();
        if (!watched_) return;
      }
      if (now != seen) return EndIfNothingIsWritten(self, now);
      Cut();
      if (session_ == core::SessionId{}) return;
      shell_.StreamEnded(std::exchange(session_, core::SessionId{}),
                         Status(StatusCode::kInsufficientResources, "the client does not read its stream"));
    });
  }

  // False: no more is to be read.
  bool HandleHello() {
    Result<HelloFacts> hello = HelloFrom(in_, *peer_, options_.version);
    if (!hello.ok()) {
      loop_.Post([this, self = self_] { shell_.doors()[kBrokerSocketName].Refuse(ops::Refusal::kBadHello); });
      Send(EncodeAnswer(in_.op_id(), hello.status()));
      End(hello.status());
      return false;
    }
    hello_said_ = true;
    Ahead();
    loop_.Post([this, self = self_, facts = std::move(hello.value())]() mutable {
      // One that broke meanwhile has posted its end already, and nobody would end the session again.
      if (!ending()) session_ = shell_.Attach(self, std::move(facts));
      Taken();
    });
    return true;
  }

  bool HandleOperation() {
    const core::OpId op_id = in_.op_id();
    Result<core::Op> op = DecodeOp(in_);
    if (op_id == 0 && !in_.has_transport_report())
      op = Status(StatusCode::kInvalidParameter, "op_id must not be 0");
    if (!op.ok()) {
      if (Send(EncodeAnswer(op_id, op.status()))) return true;
      Cut();
      PostEnd(Status(StatusCode::kInsufficientResources, "the client does not read its stream"));
      return false;
    }
    Ahead();
    loop_.Post([this, self = self_, op_id, op = std::move(op.value())]() mutable {
      if (session_ != core::SessionId{}) shell_.Operation(session_, op_id, std::move(op));
      Taken();
    });
    return true;
  }

  void Ahead() {
    std::lock_guard lock(ahead_mutex_);
    ++ahead_;
  }

  void PostEnd(Status why) {
    loop_.Post([this, self = self_, why = std::move(why)] {
      if (session_ != core::SessionId{}) shell_.StreamEnded(std::exchange(session_, core::SessionId{}), why);
    });
  }

  EventLoop& loop_;
  BrokerShell& shell_;
  const SessionService::Options& options_;
  const std::optional<Peer> peer_;
  std::shared_ptr<SessionStream> self_;  // Until OnDone.
  pb::ClientMessage in_;
  bool hello_said_ = false;    // Reading side only.
  core::SessionId session_{};  // Loop thread only.
  std::mutex ahead_mutex_;
  std::uint32_t ahead_ = 0;
  std::uint64_t written_ = 0;  // Messages; tells a slow reader from one that is gone.
  bool paused_ = false, watched_ = false;
};

}  // namespace

grpc::ServerBidiReactor<pb::ClientMessage, pb::ServerMessage>* SessionService::Session(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<SessionStream>(context, loop_, shell_, options_);
  SessionStream* reactor = stream.get();
  reactor->Start(std::move(stream));
  return reactor;
}

}  // namespace nd::service
