// SPDX-License-Identifier: Apache-2.0
// Compares the codec of session messages with the classes that protoc generates: the same verdict on any
// bytes, and the same message.
//
// Input: a header byte (odd: a message of the broker, even: of a client), then the message.
#include <google/protobuf/stubs/logging.h>

#include "session/testing/compare.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd;
  google::protobuf::SetLogHandler(nullptr);  // It reports each string that is not UTF-8.
  fuzz::Input input(data, size);
  const bool from_broker = input.Number() % 2 != 0;
  const auto bytes = std::as_bytes(input.rest());
  const std::string difference =
      from_broker ? session::DifferenceAsServerMessage(bytes) : session::DifferenceAsClientMessage(bytes);
  fuzz::Require(difference.empty(), difference.c_str());
  return 0;
}
