// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/hostile/raw_lane.h"

#include <utility>

namespace nd::hostile {

RawLane::RawLane(const std::string& directory, bool hello, const std::string& application)
    : testing::RawLane(directory) {
  if (!hello || !open()) return;
  const std::string token = Token();
  if (token.empty() || Hello(token, application).status().code() != kSuccess) {
    Close();
    return;
  }
  pb::ClientMessage message;
  message.mutable_open_adapter();
  adapter_ = Make(message);
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

bool RawLane::Send(pb::ClientMessage message, bool wait) {
  message.set_op_id(++last_op_);
  return SendBytes(Datagram(message.SerializeAsString()), wait);
}

pb::ServerMessage RawLane::Receive() {
  pb::ServerMessage message;
  if (const auto bytes = ReceiveBytes()) static_cast<void>(message.ParseFromString(*bytes));
  return message;
}

std::vector<UniqueFd> RawLane::TakeDescriptors() {
  std::vector<UniqueFd> all;
  for (Record& record : std::exchange(kept, {})) {
    for (UniqueFd& fd : record.fds) all.push_back(std::move(fd));
  }
  return all;
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
