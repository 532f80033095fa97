// SPDX-License-Identifier: Apache-2.0
// Limits how far gRPC reads ahead of the loop, so that a flood waits in the socket of the client and not in
// the memory of the broker.
#include "daemon/shell/session_service.h"

#include <utility>

#include "base/locate.h"
#include "daemon/service/hello.h"
#include "daemon/service/outbox.h"
#include "daemon/service/pod_name.h"
#include "session/check.h"
#include "session/codec.h"

namespace nd::service {
namespace {

constexpr std::uint32_t kReadAhead = 128;  // Operations that were read and not yet taken by the loop.

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
    : public Outbox<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, grpc::ByteBuffer>,
      public SessionSink {
 public:
  SessionStream(grpc::CallbackServerContext* context, EventLoop& loop, BrokerShell& shell,
                const SessionService::Options& options)
      : Outbox(context),
        loop_(loop),
        shell_(shell),
        options_(options),
        peer_(options.peer_of(context->peer())) {}

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

  // ---- Called by the loop.
  bool Send(const session::ServerMessage& message) override { return SendEncoded(message); }
  bool Send(const session::Completion& completion) override { return SendEncoded(completion); }
  void End(const Status& why) override { FinishAfterQueue(ToGrpc(why)); }
  void Cut() override { FinishNow({grpc::StatusCode::CANCELLED, "the client did not read to the end"}); }
  void Taken() override {
    {
      std::lock_guard lock(ahead_mutex_);
      --ahead_;
    }
    Resume();
  }

  // ---- Called by gRPC.
  void OnReadDone(bool ok) override {
    if (!ok) {
      // Before Hello this is an error, and the client must not take it for success.
      FinishAfterQueue(hello_received_
                           ? grpc::Status::OK
                           : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                          "the stream's first message must be a Hello; there was none"));
      return PostEnd(Status(StatusCode::kConnectionDisconnected, "the client ended its stream"));
    }
    grpc::Slice bytes;
    Result<session::ClientMessage> message(StatusCode::kInsufficientResources, "gRPC has no memory for it");
    if (in_.DumpToSingleSlice(&bytes).ok()) {
      message = session::DecodeClientMessage(std::as_bytes(std::span(bytes.begin(), bytes.size())));
    }
    if (!message.ok()) {
      const char* const rule =
          hello_received_ ? "a message" : "the stream's first message must be a Hello; it";
      FinishAfterQueue(
          {grpc::StatusCode::INVALID_ARGUMENT,
           std::string(rule) + " is no ndbroker.v1.ClientMessage: " + message.status().message()});
      return PostEnd(message.status());
    }
    if (!(hello_received_ ? HandleOperation(std::move(*message)) : HandleHello(std::move(*message)))) return;
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
    // Sets the mark first and posts second: a Hello on its way to the loop sees the mark, or it runs before
    // the post.
    Outbox::OnCancel();
    PostEnd(Status(StatusCode::kConnectionDisconnected, "the client's stream broke"));
  }
  void OnDone() override { self_.reset(); }

 private:
  bool SendEncoded(const auto& message) {
    std::vector<std::byte> bytes;
    session::Append(message, &bytes);
    const grpc::Slice slice(bytes.data(), bytes.size());
    return Enqueue(grpc::ByteBuffer(&slice, 1), bytes.size(), options_.queue_bytes) != Put::kFull;
  }

  void ReadNext() {
    if (!Pin()) return;
    in_.Clear();
    StartRead(&in_);
    Unpin();
  }

  // Returns true when the client has to wait until Resume().
  bool Pause() {
    std::lock_guard lock(ahead_mutex_);
    // Checked under the lock, so that a thread that lowers the values afterwards sees the pause.
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
  // On the loop. Checks repeatedly while the client has to wait.
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

  // Returns false to stop reading.
  bool HandleHello(session::ClientMessage message) {
    const core::OpId op_id = message.op_id;
    Result<HelloFacts> hello = HelloFrom(std::move(message), *peer_, options_.version);
    if (hello.ok()) NamePod(options_.pods_directory, hello->identity);
    if (!hello.ok()) {
      loop_.Post([this, self = self_] { shell_.doors()[kBrokerSocketName].Refuse(ops::Refusal::kBadHello); });
      Send(session::Completion{op_id, hello.status(), {}});
      End(hello.status());
      return false;
    }
    hello_received_ = true;
    Ahead();
    PostForUser([this, self = self_, facts = std::move(hello.value())]() mutable {
      // A stream that broke meanwhile has posted its end already, so a session attached now would never end.
      if (!ending()) session_ = shell_.Attach(self, std::move(facts));
      Taken();
    });
    return true;
  }

  bool HandleOperation(session::ClientMessage message) {
    const core::OpId op_id = message.op_id;
    Result<session::Operation> op = session::TakeOperation(std::move(message));
    if (!op.ok()) {
      if (Send(session::Completion{op_id, op.status(), {}})) return true;
      Cut();
      PostEnd(Status(StatusCode::kInsufficientResources, "the client does not read its stream"));
      return false;
    }
    Ahead();
    PostForUser([this, self = self_, op_id, op = std::move(op.value())]() mutable {
      if (session_ != core::SessionId{}) shell_.Operation(session_, op_id, std::move(op));
      Taken();
    });
    return true;
  }

  // In order of posting; users take turns. A stream without a peer is refused, and its end is posted, too.
  void PostForUser(EventLoop::Callback callback) {
    loop_.PostFor(peer_ ? Account{peer_->uid} : Account::kCommon, std::move(callback));
  }

  void Ahead() {
    std::lock_guard lock(ahead_mutex_);
    ++ahead_;
  }

  void PostEnd(Status why) {
    PostForUser([this, self = self_, why = std::move(why)] {
      if (session_ != core::SessionId{}) shell_.StreamEnded(std::exchange(session_, core::SessionId{}), why);
    });
  }

  EventLoop& loop_;
  BrokerShell& shell_;
  const SessionService::Options& options_;
  const std::optional<Peer> peer_;
  std::shared_ptr<SessionStream> self_;  // Until OnDone.
  grpc::ByteBuffer in_;
  bool hello_received_ = false;  // For the reading side only.
  core::SessionId session_{};    // Loop thread only.
  std::mutex ahead_mutex_;
  std::uint32_t ahead_ = 0;
  std::uint64_t written_ = 0;  // Counts messages; distinguishes a slow reader from one that does not read.
  bool paused_ = false, watched_ = false;
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SessionService::Session(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<SessionStream>(context, loop_, shell_, options_);
  SessionStream* reactor = stream.get();
  reactor->Start(std::move(stream));
  return reactor;
}

}  // namespace nd::service
