// SPDX-License-Identifier: Apache-2.0
// Hostile clients of the real codec and the real core, in a world of two hosts: for any messages in any
// order, the invariants hold after every step and each operation completes once.
//
// Input: a header byte (1: two hosts), then records: the client (0xF0 and above: the world), a length of two
// bytes, and a ClientMessage of that length, or the argument of the world. A number below 64 in a 64-bit
// field stands for the handle of that many completions ago of this client.
#include <gtest/gtest.h>

#include <set>

#include "daemon/core/core_harness.h"
#include "ndbroker/v1/session.pb.h"
#include "session/check.h"
#include "session/codec.h"
#include "session/limits.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

namespace pb = ::ndbroker::v1;
using core::World;

constexpr std::size_t kClients = 4, kMostSteps = 48;
enum class Act : std::uint8_t {
  kDie = 0xF0,
  kAdvance,
  kCutWire,
  kHoldGoodbyes,
  kSilentClients,
  kRelease,
  kFailConnects
};

class Clients {
 public:
  explicit Clients(std::uint8_t flags) : hosts_((flags & 1) != 0 ? 2 : 1), world_(hosts_) {}
  ~Clients() {
    for (std::size_t i = 0; i < kClients; ++i) {
      if (one_[i].open()) Die(i);
    }
    world_.wire_is_cut = world_.delay_goodbyes = false;
    world_.ReleaseGoodbyes();
    // Time for all outstanding events and deadlines of the wire.
    world_.Advance(std::chrono::hours(2));
    for (int host = 0; host < hosts_; ++host) {
      Require(world_.broker(host).Connections().empty() && world_.broker(host).Listeners().empty() &&
                  world_.broker(host).Sessions().empty(),
              "nothing outlives its client");
    }
  }

  void Message(std::size_t who, std::span<const std::uint8_t> bytes);
  void Act(fuzz::Act act, std::span<const std::uint8_t> argument);

 private:
  struct One {
    World::Client client;
    bool open() const { return client.session != core::SessionId{}; }
    std::vector<std::uint64_t> handles;
    std::size_t completions = 0, repeats = 0;
  };
  // The first record of a client opens its session.
  One& Get(std::size_t who) {
    if (!one_[who].open()) Open(who);
    return one_[who];
  }
  void Open(std::size_t who) {
    one_[who] = {};
    one_[who].client =
        world_.Open(static_cast<int>(who) % hosts_, static_cast<std::uint32_t>(1000 + who % 3));
    one_[who].handles.push_back(one_[who].client.adapter.value);
    one_[who].completions = world_.completion_order(one_[who].client).size();
  }
  void Die(std::size_t who) {
    world_.Die(one_[who].client);
    CheckOnce(who);
  }
  void CheckOnce(std::size_t who) const {
    const auto order = world_.completion_order(one_[who].client);
    Require(std::set(order.begin(), order.end()).size() + one_[who].repeats == order.size(),
            "an operation completes once");
  }
  // Takes the new completions, as the stream would.
  void Collect();

  int hosts_;
  World world_;
  One one_[kClients];
};

void Substitute(const std::vector<std::uint64_t>& handles, google::protobuf::Message* message) {
  const auto* type = message->GetDescriptor();
  const auto* access = message->GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == field->CPPTYPE_UINT64) {
      const std::uint64_t value = access->GetUInt64(*message, field);
      if (value == 0 || value >= 64 || handles.empty()) continue;
      access->SetUInt64(message, field, handles[handles.size() - 1 - (value - 1) % handles.size()]);
    } else if (field->cpp_type() == field->CPPTYPE_MESSAGE && access->HasField(*message, field)) {
      Substitute(handles, access->MutableMessage(message, field));
    }
  }
}

// Checks that every reply can be encoded.
void CheckEncodes(const session::ServerMessage& message) {
  std::vector<std::byte> bytes;
  session::Append(message, &bytes);
  pb::ServerMessage again;
  Require(again.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), "what is encoded can be read");
}

void Clients::Collect() {
  for (One& one : one_) {
    if (!one.open()) continue;
    const auto order = world_.completion_order(one.client);
    for (; one.completions < order.size(); ++one.completions) {
      const core::Complete& complete = world_.Result(one.client, order[one.completions]);
      Require(!complete.status.pending(), "a completion is final");
      CheckEncodes(complete);
      if (complete.reply.handle) one.handles.push_back(complete.reply.handle.value);
    }
  }
  for (int host = 0; host < hosts_; ++host) {
    for (const auto& event : world_.Seen<core::SendConnectEvent>(host)) {
      CheckEncodes(event);
      for (One& one : one_) {
        if (one.client.host == host && one.client.session == event.session) {
          one.handles.push_back(event.connector.value);
        }
      }
    }
    for (const auto& event : world_.Seen<core::SendDisconnectEvent>(host)) CheckEncodes(event);
    for (const auto& command : world_.Seen<core::SendTransportCommand>(host)) {
      CheckEncodes(command);
    }
    for (const auto& event : world_.Seen<core::SendAdapterEvent>(host)) CheckEncodes(event);
    // A client that broke the protocol is gone; a new one replaces it.
    for (const auto& end : world_.Seen<core::EndSession>(host)) {
      for (std::size_t i = 0; i < kClients; ++i) {
        if (one_[i].client.host != host || one_[i].client.session != end.session) continue;
        Die(i);
        Open(i);
      }
    }
  }
  world_.ClearLog();
}

void Clients::Message(std::size_t who, std::span<const std::uint8_t> bytes) {
  pb::ClientMessage message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  One& one = Get(who % kClients);
  const std::uint64_t op_id = message.op_id();
  Substitute(one.handles, &message);
  const std::string encoded = message.SerializeAsString();
  auto decoded = session::DecodeClientMessage(std::as_bytes(std::span(encoded)));
  Require(decoded.ok(), "what protobuf writes can be read");
  const auto hello = session::TakeHello(*decoded);
  if (hello.ok()) {
    Require(hello->token.size() == session::kTokenBytes &&
                hello->application.size() <= session::kMaxApplicationName,
            "a Hello is checked");
  }
  auto op = session::TakeOperation(std::move(*decoded));
  if (!op.ok()) {
    CheckEncodes(session::Completion{op_id, op.status(), {}});
    return;
  }
  const auto order = world_.completion_order(one.client);
  if (op_id != 0 && op_id < 64 && op_id <= order.size()) {
    // A repeat: the reply is sent again, which is not a second completion.
    const core::OpId former = order[order.size() - op_id];
    const StatusCode before = world_.Code(one.client, former);
    world_.Resubmit(one.client, former, std::move(*op));
    Require(world_.Code(one.client, former) == before, "an operation that is said again has the same answer");
    one.completions = world_.completion_order(one.client).size();
    ++one.repeats;
    return;
  }
  world_.Submit(one.client, std::move(*op));
  Collect();
}

void Clients::Act(fuzz::Act act, std::span<const std::uint8_t> argument) {
  const std::uint8_t first = argument.empty() ? 0 : argument[0];
  switch (act) {
    case Act::kDie:
      if (!one_[first % kClients].open()) break;
      Die(first % kClients);
      Open(first % kClients);
      break;
    case Act::kAdvance:
      world_.Advance(std::chrono::milliseconds(1 << first % 24));
      break;
    case Act::kCutWire:
      world_.wire_is_cut = first % 2 != 0;
      break;
    case Act::kHoldGoodbyes:
      world_.delay_goodbyes = first % 2 != 0;
      break;
    case Act::kSilentClients:
      world_.clients_answer = first % 2 == 0;
      break;
    case Act::kRelease:
      world_.ReleaseGoodbyes();
      break;
    case Act::kFailConnects:
      world_.fail_connects.reset();
      if (first % 4 == 1) world_.fail_connects = Status(StatusCode::kIoTimeout);
      if (first % 4 == 2) world_.fail_connects = Status(StatusCode::kNetworkUnreachable);
      if (first % 4 == 3) world_.fail_connects = Status(StatusCode::kConnectionRefused);
      break;
    default:
      break;
  }
  Collect();
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  // A failed expectation of the harness counts as a violated property, too.
  GTEST_FLAG_SET(break_on_failure, true);
  // Parse errors are intended here and must not be logged.
  google::protobuf::SetLogHandler(nullptr);
  Input input(data, size);
  Clients clients(input.Number());
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    const auto who = input.Number();
    const auto bytes = input.Take(input.Number<std::uint16_t>());
    if (who >= 0xF0) {
      clients.Act(static_cast<Act>(who), bytes);
    } else {
      clients.Message(who, bytes);
    }
  }
  return 0;
}
