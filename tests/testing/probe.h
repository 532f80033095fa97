// SPDX-License-Identifier: Apache-2.0
// A test's access to gRPC, by way of the nd_probe process. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "tests/testing/channel.h"
#include "tests/testing/message.h"

namespace nd::testing {

enum class ProbeVerb : std::uint8_t { kAdmin, kForget, kOpen, kSend, kNext, kHold, kClose, kGarbage };

// A message as "field.sub.0.leaf" -> text; absent fields are "".
class Flat {
 public:
  std::string error;  // Not empty: the call failed.
  std::map<std::string, std::string> values;
  bool ok() const { return error.empty(); }
  bool empty() const { return values.empty(); }
  std::string operator[](const std::string& path) const;
  std::uint64_t Number(const std::string& path) const;
  std::size_t Count(const std::string& list) const { return Number(list + ".count"); }
};

class Probe {
 public:
  // The probe of this test process, started at its first use.
  static Probe& Get();
  Flat Admin(const std::string& directory, const std::string& method, const std::string& request = "");
  void Forget(const std::string& directory);
  std::string Garbage(const std::string& socket, const std::string& method, const std::string& payload);
  std::string Call(const Writer& message);
  pid_t pid() const { return channel_.process().pid(); }

 private:
  Channel channel_;
};

// A session at message level (ndbroker.v1.ClientMessage in text format).
class RawClient {
 public:
  explicit RawClient(const std::string& directory, bool lane = true, bool hello = true);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  const std::string& error() const { return error_; }
  bool Send(const std::string& text);
  // Sends with a new operation id and waits for the completion. Other messages are kept for Next().
  Flat Do(const std::string& operation, std::chrono::milliseconds patience = std::chrono::seconds(10));
  std::uint64_t last_op() const { return op_; }
  std::uint64_t NewOp() { return ++op_; }
  Flat Next(std::chrono::milliseconds patience = std::chrono::seconds(10));
  void HoldReading(bool hold);

 private:
  std::uint32_t id_ = 0;
  std::uint64_t op_ = 10;
  std::string error_;
};

StatusCode CodeOf(const Flat& completion);
std::string TextAddress(const Address& address);  // "{ family: 4 ip: ... port: 7 }"

}  // namespace nd::testing
