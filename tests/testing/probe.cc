// SPDX-License-Identifier: Apache-2.0
// One probe process serves the whole test, because starting gRPC costs more than any call.
#include "tests/testing/probe.h"

#include <cstdio>

namespace nd::testing {
namespace {

Flat ReadFlat(Reader& in) {
  Flat flat;
  const std::uint32_t count = in.U32();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string line = in.Text();
    const std::size_t cut = line.find('=');
    flat.values[line.substr(0, cut)] = line.substr(cut + 1);
  }
  return flat;
}

}  // namespace

std::string Flat::operator[](const std::string& path) const {
  const auto found = values.find(path);
  return found == values.end() ? std::string() : found->second;
}

std::uint64_t Flat::Number(const std::string& path) const {
  const std::string text = (*this)[path];
  return text.empty() ? 0 : std::strtoull(text.c_str(), nullptr, 10);
}

Probe& Probe::Get() {
  static Probe probe;
  return probe;
}

std::string Probe::Call(const Writer& message) {
  if (!channel_.started() || !channel_.process().running()) {
    SpawnOptions spawn;
    spawn.arguments = {BinaryDirectory() + "/nd_probe"};
    channel_ = Channel();
    channel_.Start(spawn);
  }
  return channel_.Call(message.bytes());
}

Flat Probe::Admin(const std::string& directory, const std::string& method, const std::string& request) {
  const std::string answer = Call(Writer().Put(ProbeVerb::kAdmin).Put(directory).Put(method).Put(request));
  Flat failed;
  failed.error = "the probe process died";
  if (answer.empty()) return failed;
  Reader in(answer);
  const std::string error = in.Text();
  Flat flat = ReadFlat(in);
  flat.error = error;
  return flat;
}

void Probe::Forget(const std::string& directory) {
  Call(Writer().Put(ProbeVerb::kForget).Put(directory));
}

std::string Probe::Garbage(const std::string& socket, const std::string& method, const std::string& payload) {
  const std::string answer = Call(Writer().Put(ProbeVerb::kGarbage).Put(socket).Put(method).Put(payload));
  return answer.empty() ? "the probe process died" : Reader(answer).Text();
}

RawClient::RawClient(const std::string& directory, bool lane, bool hello) {
  const std::string answer =
      Probe::Get().Call(Writer().Put(ProbeVerb::kOpen).Put(directory).Put(lane).Put(hello));
  if (answer.empty()) {
    error_ = "the probe process died";
    return;
  }
  Reader in(answer);
  id_ = in.U32();
  error_ = in.Text();
  if (!error_.empty() || !hello) return;
  const Flat greeting = Next();
  if (greeting["completion.op_id"] != "1" || CodeOf(greeting) != StatusCode::kSuccess) {
    error_ = "Hello was answered " + greeting["completion.status.message"] + greeting["ended"];
  }
}

RawClient::~RawClient() {
  Probe::Get().Call(Writer().Put(ProbeVerb::kClose).Put(id_));
}

bool RawClient::Send(const std::string& text) {
  const std::string answer = Probe::Get().Call(Writer().Put(ProbeVerb::kSend).Put(id_).Put(text));
  return !answer.empty() && Reader(answer).Bool();
}

Flat RawClient::Do(const std::string& operation, std::chrono::milliseconds patience) {
  const std::string op = std::to_string(NewOp());
  Flat failed;
  failed.error = "could not be sent";
  if (!Send("op_id: " + op + " " + operation)) return failed;
  for (;;) {
    Flat next = Next(patience);
    if (next.empty() || !next["ended"].empty() || next["completion.op_id"] == op) return next;
  }
}

Flat RawClient::Next(std::chrono::milliseconds patience) {
  const std::string answer = Probe::Get().Call(
      Writer().Put(ProbeVerb::kNext).Put(id_).Put(static_cast<std::uint32_t>(patience.count())));
  if (answer.empty()) return {};
  Reader in(answer);
  return ReadFlat(in);
}

void RawClient::HoldReading(bool hold) {
  Probe::Get().Call(Writer().Put(ProbeVerb::kHold).Put(id_).Put(hold));
}

StatusCode CodeOf(const Flat& completion) {
  if (completion["completion.op_id"].empty()) return StatusCode::kPending;
  return static_cast<StatusCode>(completion.Number("completion.status.code"));
}

std::string TextAddress(const Address& address) {
  std::string ip;
  for (const char c : address.ip()) {
    char octal[8];
    std::snprintf(octal, sizeof(octal), "\\%03o", static_cast<unsigned char>(c));
    ip += octal;
  }
  return "{ family: " + std::to_string(static_cast<int>(address.family())) + " ip: \"" + ip +
         "\" port: " + std::to_string(address.port()) + " }";
}

}  // namespace nd::testing
