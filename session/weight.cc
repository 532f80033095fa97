// SPDX-License-Identifier: Apache-2.0
#include "session/weight.h"

namespace nd::session {
namespace {

const std::size_t kInside = std::string().capacity();

std::size_t HeapBytes(const std::string& text) {
  return text.capacity() > kInside ? text.capacity() + 1 : 0;
}

}  // namespace

std::size_t HeapBytes(const Completion& completion) {
  const Reply& reply = completion.reply;
  std::size_t bytes = HeapBytes(completion.status.message()) + HeapBytes(reply.broker_version) +
                      reply.private_data.capacity() + reply.proof.capacity() +
                      reply.adapters.capacity() * sizeof(AdapterInfo);
  for (const AdapterInfo& adapter : reply.adapters) {
    bytes += HeapBytes(adapter.name) + HeapBytes(adapter.provider) +
             adapter.addresses.capacity() * sizeof(Address);
  }
  return bytes;
}

std::size_t HeapBytes(const ServerMessage& message) {
  if (const auto* completion = std::get_if<Completion>(&message)) return HeapBytes(*completion);
  if (const auto* command = std::get_if<TransportCommand>(&message)) return command->attributes.capacity();
  if (const auto* end = std::get_if<SessionEnd>(&message)) return HeapBytes(end->status.message());
  return 0;
}

}  // namespace nd::session
