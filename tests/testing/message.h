// SPDX-License-Identifier: Apache-2.0
// Messages between a test and its helper processes: consecutive plain values; both ends come from one build.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::testing {

class Writer {
 public:
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) Writer& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Writer& Put(std::string_view text) {
    Put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  Writer& Put(const std::string& text) { return Put(std::string_view(text)); }
  Writer& Put(const char* text) { return Put(std::string_view(text)); }
  Writer& Put(const Address& address) { return Put(address.family()).Put(address.ip()).Put(address.port()); }
  Writer& Put(const Status& status) {
    return Put(status.code()).Put(status.detail()).Put(status.native()).Put(status.message());
  }
  Writer& Put(const ReadLimits& limits) { return Put(limits.inbound).Put(limits.outbound); }
  template <typename T>
  Writer& Put(const std::vector<T>& items) {
    Put(static_cast<std::uint32_t>(items.size()));
    for (const T& item : items) Put(item);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Aborts when a message is too short, which is a bug of the harness.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) T Get() {
    T value;
    if (bytes_.size() < sizeof(value)) std::abort();
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
    return value;
  }
  std::uint32_t U32() { return Get<std::uint32_t>(); }
  std::uint64_t U64() { return Get<std::uint64_t>(); }
  bool Bool() { return Get<bool>(); }
  std::string Text() {
    const std::uint32_t size = U32();
    if (bytes_.size() < size) std::abort();
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  nd::Address Address() {
    const auto family = Get<nd::Address::Family>();
    const std::string ip = Text();
    return nd::Address::FromParts(family, ip, Get<std::uint16_t>());
  }
  nd::Status Status() {
    const auto code = Get<StatusCode>();
    const auto detail = Get<Detail>();
    const auto native = Get<std::int32_t>();
    return nd::Status(code, Text(), detail, native);
  }
  ReadLimits Limits() {
    const std::uint32_t inbound = U32();
    return {inbound, U32()};
  }

 private:
  std::string_view bytes_;
};

// The commands of an actor. The arguments are beside each case in actor_*.cc.
enum class Verb : std::uint8_t {
  kOpen,
  kQueryAddressList,
  kInfo,
  kResolveAddress,
  kCheckAddress,
  kConnected,
  kCloseAdapter,
  kSessionEvents,
  kCreateConnector,
  kCreateListener,
  kCreateSharedEndpoint,
  kNdkListen,
  kTakeConnectEvent,
  kBind,
  kListen,
  kGetLocalAddress,
  kGetPeerAddress,
  kGetAddressRaw,
  kConnect,
  kNdkConnect,
  kConnectShared,
  kCompleteConnect,
  kAccept,
  kReject,
  kGetReadLimits,
  kGetPrivateData,
  kNdkGetConnectionData,
  kNotifyDisconnect,
  kSetDisconnectCallback,
  kDisconnectEvents,
  kDisconnectReason,
  kDisconnect,
  kCancel,
  kClose,
  kDrop,
  kGetConnectionRequest,
  kControlConnectEvents,
  kOpStatus,
  kOpAccount,
  kCompletionLog,
  kCreateCq,
  kCreateSrq,
  kCreateQp,
  kAllocate,
  kCreateWindow,
  kWindowToken,
  kDeregister,
  kRegisterRaw,
  kPost,
  kBindWindow,
  kInvalidate,
  kFlush,
  kPoll,
  kNext,
  kNotify,
  kNotified,
  kConsume,
  kResize,
  kCqState,
  kFill,
  kCheck,
  kPeek,
  kPoke,
  kReset,
  kFork,
  kProgram,
  kProgramStart,
  kProgramJoin,
};

// How an operation reports its completion.
enum class Tell : std::uint8_t { kRing, kCallback, kCallbackCloses, kCallbackSleeps };

}  // namespace nd::testing
