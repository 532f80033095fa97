// SPDX-License-Identifier: Apache-2.0
// The calls on objects of an actor: one message and one answer each.
#include <utility>

#include "tests/testing/actor.h"
#include "tests/testing/actor_messages.h"

namespace nd::testing {

// ---- Outcome -------------------------------------------------------------------------------------------
Status Outcome::Wait(milliseconds patience) const {
  if (!inline_.pending() || actor_ == nullptr) return inline_;
  const std::string answer =
      actor_->Call(Say(Verb::kOpStatus, op_).Put(static_cast<std::uint32_t>(patience.count())));
  return answer.empty() ? Actor::Gone() : Reader(answer).Status();
}

int Outcome::completions() const {
  const std::string answer = actor_->Call(Say(Verb::kOpAccount, op_));
  if (answer.empty()) return -1;
  Reader in(answer);
  (void)in.Status();
  return in.Get<int>();
}

Status Outcome::told() const {
  const std::string answer = actor_->Call(Say(Verb::kOpAccount, op_));
  if (answer.empty()) return Actor::Gone();
  Reader in(answer);
  (void)in.Status();
  (void)in.Get<int>();
  return in.Status();
}

// ---- Object --------------------------------------------------------------------------------------------
Outcome Object::Begin(const Writer& message) const {
  const std::string answer = actor_->Call(message);
  if (answer.empty()) return Outcome(actor_, Actor::Gone(), 0);
  Reader in(answer);
  Status status = in.Status();
  return Outcome(actor_, std::move(status), in.U32());
}

Status Object::Simple(const Writer& message) const {
  const std::string answer = actor_->Call(message);
  return answer.empty() ? Actor::Gone() : Reader(answer).Status();
}

Outcome Object::CloseAs(bool ndk) const {
  return Begin(Say(Verb::kClose, id_).Put(ndk).Put(Tell::kRing));
}
void Object::Drop() const {
  actor_->Call(Say(Verb::kDrop, id_));
}
Status Object::Cancel() const {
  return Simple(Say(Verb::kCancel, id_));
}

Result<Address> Object::GetLocalAddress() const {
  const std::string answer = actor_->Call(Say(Verb::kGetLocalAddress, id_));
  if (answer.empty()) return Actor::Gone();
  Reader in(answer);
  Status status = in.Status();
  if (!status.ok()) return status;
  return in.Address();
}

Object::Raw Object::GetAddressRaw(bool peer, std::uint32_t capacity, bool null) const {
  const std::string answer = actor_->Call(Say(Verb::kGetAddressRaw, id_).Put(peer).Put(null).Put(capacity));
  if (answer.empty()) return {.status = Actor::Gone()};
  Reader in(answer);
  return ReadRaw(in);
}

bool Object::Raw::untouched(std::size_t from) const {
  return bytes.find_first_not_of('\xA5', from) == std::string::npos;
}

// ---- Queues and memory ---------------------------------------------------------------------------------
std::vector<Work> Cq::Poll(std::uint32_t max) const {
  const std::string answer = actor_->Call(Say(Verb::kPoll, id_).Put(max));
  std::vector<Work> list;
  if (answer.empty()) return list;
  Reader in(answer);
  list.resize(in.U32());
  for (Work& work : list) work = ReadWork(in);
  return list;
}

Work Cq::Next(milliseconds patience) const {
  const std::string answer =
      actor_->Call(Say(Verb::kNext, id_).Put(static_cast<std::uint32_t>(patience.count())));
  if (answer.empty()) return {};
  Reader in(answer);
  if (!in.Status().ok() || in.U32() != 1) return {};
  return ReadWork(in);
}

Status Cq::Notify(NotifyType type) const {
  return Simple(Say(Verb::kNotify, id_).Put(type));
}
bool Cq::Notified(milliseconds patience) const {
  const std::string answer =
      actor_->Call(Say(Verb::kNotified, id_).Put(static_cast<std::uint32_t>(patience.count())));
  return !answer.empty() && Reader(answer).Bool();
}
void Cq::ConsumeNotification() const {
  actor_->Call(Say(Verb::kConsume, id_));
}
Status Cq::Resize(std::uint32_t depth) const {
  return Simple(Say(Verb::kResize, id_).Put(depth));
}
Status Cq::State() const {
  return Simple(Say(Verb::kCqState, id_));
}

void Memory::Fill(std::uint64_t offset, std::uint64_t length, std::uint64_t seed) const {
  actor_->Call(Say(Verb::kFill, id_).Put(offset).Put(length).Put(seed));
}
bool Memory::Check(std::uint64_t offset, std::uint64_t length, std::uint64_t seed) const {
  const std::string answer = actor_->Call(Say(Verb::kCheck, id_).Put(offset).Put(length).Put(seed));
  return !answer.empty() && Reader(answer).Bool();
}
std::string Memory::Peek(std::uint64_t offset, std::uint32_t length) const {
  const std::string answer = actor_->Call(Say(Verb::kPeek, id_).Put(offset).Put(length));
  return answer.empty() ? std::string() : Reader(answer).Text();
}
void Memory::Poke(std::uint64_t offset, std::string_view bytes) const {
  actor_->Call(Say(Verb::kPoke, id_).Put(offset).Put(bytes));
}
Status Memory::Deregister() const {
  return Simple(Say(Verb::kDeregister, id_));
}

std::uint32_t Window::token() const {
  const std::string answer = actor_->Call(Say(Verb::kWindowToken, id_));
  return answer.empty() ? 0 : Reader(answer).U32();
}

Status Srq::Receive(std::uint64_t context, const Memory& memory, std::uint64_t offset,
                    std::uint32_t length) const {
  return Simple(Writer()
                    .Put(Verb::kPost)
                    .Put(RequestType::kReceive)
                    .Put(id_)
                    .Put(context)
                    .Put(1U)
                    .Put(memory.id())
                    .Put(offset)
                    .Put(length)
                    .Put(std::uint64_t{0})
                    .Put(0U)
                    .Put(0U));
}

Status Qp::Post(RequestType type, std::uint64_t context, const std::vector<Slice>& slices,
                std::uint64_t remote, std::uint32_t token, std::uint32_t flags) const {
  Writer message;
  message.Put(Verb::kPost).Put(type).Put(id_).Put(context).Put(static_cast<std::uint32_t>(slices.size()));
  for (const Slice& slice : slices) message.Put(slice.memory).Put(slice.offset).Put(slice.length);
  return Simple(message.Put(remote).Put(token).Put(flags));
}
Status Qp::Receive(std::uint64_t context, std::uint64_t offset, std::uint32_t length) const {
  return Post(RequestType::kReceive, context, {{actor_->Scratch().id(), offset, length}});
}
Status Qp::Send(std::uint64_t context, std::uint64_t offset, std::uint32_t length,
                std::uint32_t flags) const {
  return Post(RequestType::kSend, context, {{actor_->Scratch().id(), offset, length}}, 0, 0, flags);
}
Status Qp::Write(std::uint64_t context, const Memory& to, std::uint64_t remote_offset, std::uint32_t length,
                 std::uint64_t offset, std::uint32_t flags) const {
  return Post(RequestType::kWrite, context, {{actor_->Scratch().id(), offset, length}},
              to.address + remote_offset, to.token, flags);
}
Status Qp::Read(std::uint64_t context, const Memory& from, std::uint64_t remote_offset, std::uint32_t length,
                std::uint64_t offset, std::uint32_t flags) const {
  return Post(RequestType::kRead, context, {{actor_->Scratch().id(), offset, length}},
              from.address + remote_offset, from.token, flags);
}
Status Qp::BindWindow(std::uint64_t context, const Memory& memory, const Window& window, std::uint64_t offset,
                      std::uint64_t length, std::uint32_t flags) const {
  return Simple(Say(Verb::kBindWindow, id_)
                    .Put(context)
                    .Put(memory.id())
                    .Put(window.id())
                    .Put(offset)
                    .Put(length)
                    .Put(flags));
}
Status Qp::Invalidate(std::uint64_t context, const Window& window) const {
  return Simple(Say(Verb::kInvalidate, id_).Put(context).Put(window.id()));
}
Status Qp::Flush() const {
  return Simple(Say(Verb::kFlush, id_));
}

// ---- Connections ---------------------------------------------------------------------------------------
Status Connector::Bind(const Address& local) const {
  return Simple(Say(Verb::kBind, id_).Put(local));
}

Outcome Connector::ConnectAs(Verb verb, const Qp& qp, const Address& source, std::uint32_t endpoint,
                             const Address& remote, const ConnectArguments& arguments) const {
  return Begin(Say(verb, id_)
                   .Put(qp.id())
                   .Put(source)
                   .Put(endpoint)
                   .Put(remote)
                   .Put(arguments.limits)
                   .Put(arguments.data)
                   .Put(arguments.missing)
                   .Put(id_)
                   .Put(arguments.tell));
}
Outcome Connector::Connect(const Qp& qp, const Address& remote, const ConnectArguments& arguments) const {
  return ConnectAs(Verb::kConnect, qp, Address(), 0, remote, arguments);
}
Outcome Connector::NdkConnect(const Qp& qp, const Address& source, const Address& remote,
                              const ConnectArguments& arguments) const {
  return ConnectAs(Verb::kNdkConnect, qp, source, 0, remote, arguments);
}
Outcome Connector::ConnectShared(const Qp& qp, const Endpoint& endpoint, const Address& remote,
                                 const ConnectArguments& arguments) const {
  return ConnectAs(Verb::kConnectShared, qp, Address(), endpoint.id(), remote, arguments);
}
Outcome Connector::CompleteConnect(Tell tell) const {
  return Begin(Say(Verb::kCompleteConnect, id_).Put(tell));
}
Outcome Connector::Accept(const Qp& qp, const ConnectArguments& arguments) const {
  return Begin(Say(Verb::kAccept, id_)
                   .Put(qp.id())
                   .Put(arguments.limits)
                   .Put(arguments.data)
                   .Put(arguments.missing)
                   .Put(arguments.tell));
}
Status Connector::Reject(std::string_view data, std::uint32_t missing) const {
  return Simple(Say(Verb::kReject, id_).Put(data).Put(missing));
}
Connector::Limits Connector::GetReadLimits(bool inbound, bool outbound) const {
  const std::string answer = actor_->Call(Say(Verb::kGetReadLimits, id_).Put(inbound).Put(outbound));
  if (answer.empty()) return {Actor::Gone(), {}};
  Reader in(answer);
  Status status = in.Status();
  return {std::move(status), in.Limits()};
}
Object::Raw Connector::GetPrivateData(std::uint32_t capacity, bool null) const {
  const std::string answer = actor_->Call(Say(Verb::kGetPrivateData, id_).Put(null).Put(capacity));
  if (answer.empty()) return {.status = Actor::Gone()};
  Reader in(answer);
  return ReadRaw(in);
}
Result<std::string> Connector::PrivateData() const {
  const Raw raw = GetPrivateData(1024);
  if (!raw.status.ok()) return raw.status;
  return raw.bytes.substr(0, raw.length);
}
Connector::ConnectionData Connector::NdkGetConnectionData(std::uint32_t capacity, bool null) const {
  const std::string answer = actor_->Call(Say(Verb::kNdkGetConnectionData, id_).Put(null).Put(capacity));
  if (answer.empty()) return {{.status = Actor::Gone()}, {}};
  Reader in(answer);
  Raw raw = ReadRaw(in);
  return {std::move(raw), in.Limits()};
}
Result<Address> Connector::GetPeerAddress() const {
  const std::string answer = actor_->Call(Say(Verb::kGetPeerAddress, id_));
  if (answer.empty()) return Actor::Gone();
  Reader in(answer);
  Status status = in.Status();
  if (!status.ok()) return status;
  return in.Address();
}
Outcome Connector::NotifyDisconnect() const {
  return Begin(Say(Verb::kNotifyDisconnect, id_).Put(Tell::kRing));
}
void Connector::SetDisconnectCallback() const {
  actor_->Call(Say(Verb::kSetDisconnectCallback, id_));
}
std::vector<std::uint8_t> Connector::DisconnectEvents() const {
  return ReadList<std::uint8_t>(actor_->Call(Say(Verb::kDisconnectEvents, id_)));
}
DisconnectReason Connector::disconnect_reason() const {
  const std::string answer = actor_->Call(Say(Verb::kDisconnectReason, id_));
  return answer.empty() ? DisconnectReason::kUnknown : Reader(answer).Get<DisconnectReason>();
}
Outcome Connector::Disconnect() const {
  return Begin(Say(Verb::kDisconnect, id_).Put(Tell::kRing));
}

Status Listener::Bind(const Address& local) const {
  return Simple(Say(Verb::kBind, id_).Put(local));
}
Status Listener::Listen(std::uint32_t backlog) const {
  return Simple(Say(Verb::kListen, id_).Put(backlog));
}
Outcome Listener::GetConnectionRequest(const Connector& connector) const {
  return Begin(Say(Verb::kGetConnectionRequest, id_).Put(connector.id()).Put(Tell::kRing));
}
Status Listener::ControlConnectEvents(bool pause) const {
  return Simple(Say(Verb::kControlConnectEvents, id_).Put(pause));
}
Connector Listener::TakeConnectEvent(milliseconds patience) const {
  std::uint32_t id = 0;
  Eventually(
      [&] {
        const std::string answer = actor_->Call(Say(Verb::kTakeConnectEvent, id_));
        id = answer.empty() ? 0 : Reader(answer).U32();
        return id != 0 || answer.empty();
      },
      patience);
  return Connector(actor_, id != 0 ? Status() : Status(StatusCode::kIoTimeout, "no connect event"), id);
}

}  // namespace nd::testing
