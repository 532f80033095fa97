// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/hostile/raw_lane.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>

#include "base/fd_lane.h"
#include "base/locate.h"
#include "provider/hand_off.h"

namespace nd::hostile {

RawLane::RawLane(const std::string& directory, bool hello, const std::string& application)
    : fd_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const std::string path = ClientSocketPath(directory, kLaneSocketName);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd_.reset();
  if (!hello || !fd_) return;
  const std::string token = Token();
  if (token.empty() || Hello(token, application).status().code() != kSuccess) {
    fd_.reset();
    return;
  }
  pb::ClientMessage open;
  open.mutable_open_adapter();
  adapter_ = Make(open);
}

std::string RawLane::Token() {
  provider::TokenRecord record;
  const Result<FdMessage> message =
      ReceiveWithFds(fd_.get(), std::as_writable_bytes(std::span(&record, 1)), true);
  if (!message.ok() || message->size != sizeof record || record.magic != provider::TokenRecord::kMagic)
    return {};
  return {reinterpret_cast<const char*>(record.token), sizeof record.token};
}

pb::Completion RawLane::Hello(const std::string& token, const std::string& application) {
  pb::ClientMessage message;
  message.mutable_hello()->set_token(token);
  message.mutable_hello()->set_min_version(1);
  message.mutable_hello()->set_max_version(1);
  message.mutable_hello()->set_application(application);
  pb::Completion done = Ask(message);
  // A broker that hangs up accepts nothing.
  if (done.op_id() == 0) done.mutable_status()->set_code(1);
  return done;
}

std::string Datagram(const std::string& message) {
  const provider::MessageRecord record;
  const auto length = static_cast<std::uint32_t>(message.size());
  std::string out(reinterpret_cast<const char*>(&record), sizeof record);
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  return out + message;
}

bool RawLane::SendBytes(const std::string& datagram, bool wait) {
  return ::send(fd_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) > 0;
}

bool RawLane::Send(pb::ClientMessage message, bool wait) {
  message.set_op_id(++last_op_);
  return SendBytes(Datagram(message.SerializeAsString()), wait);
}

pb::ServerMessage RawLane::Receive() {
  static std::array<std::byte, provider::kMaxServerDatagram> buffer;
  while (unread_.empty()) {
    Result<FdMessage> message = ReceiveWithFds(fd_.get(), buffer, true);
    if (!message.ok() || message->size < 16) return {};
    std::uint32_t magic = 0;
    std::memcpy(&magic, buffer.data(), sizeof magic);
    if (magic == provider::MessageRecord::kMagic) {
      const auto* bytes = reinterpret_cast<const char*>(buffer.data());
      unread_.assign(bytes + sizeof(provider::MessageRecord), bytes + message->size);
      break;
    }
    provider::AckRecord ack;
    std::memcpy(&ack.id, buffer.data() + 8, sizeof ack.id);
    for (UniqueFd& fd : message->fds) descriptors.push_back(std::move(fd));
    if (acknowledge) static_cast<void>(SendWithFds(fd_.get(), std::as_bytes(std::span(&ack, 1)), {}));
  }
  std::uint32_t length = 0;
  std::memcpy(&length, unread_.data(), sizeof length);
  pb::ServerMessage heard;
  static_cast<void>(heard.ParseFromString(unread_.substr(sizeof length, length)));
  unread_.erase(0, sizeof length + length);
  return heard;
}

pb::Completion RawLane::Ask(const pb::ClientMessage& message) {
  if (!Send(message)) return {};
  for (;;) {
    const pb::ServerMessage heard = Receive();
    if (heard.kind_case() == pb::ServerMessage::KIND_NOT_SET) return {};
    if (heard.completion().op_id() == last_op_) return heard.completion();
  }
}

std::uint64_t RawLane::QueuePair() {
  pb::ClientMessage m;
  m.mutable_create_queue_pair()->set_adapter(adapter_);
  m.mutable_create_queue_pair()->set_receive_queue_depth(1);
  m.mutable_create_queue_pair()->set_initiator_queue_depth(1);
  return Make(m);
}

std::uint64_t RawLane::Connector() {
  pb::ClientMessage m;
  m.mutable_create_connector()->set_adapter(adapter_);
  return Make(m);
}

void SetAddress(int host, std::uint32_t port, pb::Address* out) {
  out->set_family(4);
  out->set_ip(std::string("\x7f\0\0", 3) + static_cast<char>(host));
  out->set_port(port);
}

std::uint64_t RawLane::Listener(int host, std::uint32_t port, bool events) {
  pb::ClientMessage m;
  m.mutable_create_listener()->set_adapter(adapter_);
  const std::uint64_t listener = Make(m);
  m.mutable_listen()->set_listener(listener);
  m.mutable_listen()->set_connect_events(events);
  SetAddress(host, port, m.mutable_listen()->mutable_local());
  return Ask(m).status().code() == kSuccess ? listener : 0;
}

pb::ClientMessage RawLane::ConnectTo(std::uint64_t connector, std::uint64_t pair, int host,
                                     std::uint32_t port) {
  pb::ClientMessage m;
  m.mutable_connect()->set_connector(connector);
  m.mutable_connect()->set_queue_pair(pair);
  SetAddress(host, port, m.mutable_connect()->mutable_remote());
  SetAddress(host, 0, m.mutable_connect()->mutable_source());
  return m;
}

}  // namespace nd::hostile
