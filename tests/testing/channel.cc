// SPDX-License-Identifier: Apache-2.0
// A stream with length prefixes rather than datagrams: long lists of completions exceed a datagram.
#include "tests/testing/channel.h"

#include <cstdint>

namespace nd::testing {

bool TakeMessage(int fd, std::string* message) {
  std::uint32_t size = 0;
  if (!ReadAll(fd, reinterpret_cast<char*>(&size), sizeof(size))) return false;
  message->resize(size);
  return ReadAll(fd, message->data(), size);
}

bool PutMessage(int fd, const std::string& message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  std::string framed(reinterpret_cast<const char*>(&size), sizeof(size));
  framed += message;
  return WriteAll(fd, framed.data(), framed.size());
}

void Channel::Start(SpawnOptions options) {
  UniqueFd theirs;
  MakeChannelPair(&socket_, &theirs);
  options.descriptor3 = theirs.get();
  process_ = Process::Spawn(options);
}

std::string Channel::Call(const std::string& message) {
  std::string answer;
  if (!socket_ || !PutMessage(socket_.get(), message) || !TakeMessage(socket_.get(), &answer)) return {};
  return answer;
}

}  // namespace nd::testing
