// SPDX-License-Identifier: Apache-2.0
#include "session/testing/compare.h"

#include <vector>

#include "ndbroker/v1/session.pb.h"
#include "session/codec.h"

namespace nd::session {
namespace {

namespace pb = ::ndbroker::v1;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<std::byte> Encoded(const ClientMessage& message) {
  std::vector<std::byte> out;
  Append(message, &out);
  return out;
}
std::vector<std::byte> Encoded(const std::optional<ServerMessage>& message) {
  std::vector<std::byte> out;
  if (message) Append(*message, &out);
  return out;
}

template <typename Generated, typename Decode>
std::string Difference(std::span<const std::byte> bytes, const Decode& decode) {
  const auto ours = decode(bytes);
  const std::string& why = ours.status().message();
  if (why.ends_with("it is given twice") || why.ends_with("it is not the only content of the message"))
    return {};
  Generated theirs;
  const bool parsed = theirs.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (parsed != ours.ok()) return parsed ? "only protobuf reads it; " + why : "only the codec reads it";
  if (!parsed) return why.empty() ? "a refusal has no reason" : "";
  const auto again = decode(BytesOf(theirs.SerializeAsString()));
  if (!again.ok()) return "the codec does not read what protobuf writes: " + again.status().message();
  if (Encoded(*again) != Encoded(*ours))
    return "both read it, but not the same: " + theirs.ShortDebugString();
  const std::vector<std::byte> written = Encoded(*ours);
  if (!theirs.ParseFromArray(written.data(), static_cast<int>(written.size()))) {
    return "protobuf does not read what the codec writes";
  }
  return {};
}

}  // namespace

std::string DifferenceAsClientMessage(std::span<const std::byte> bytes) {
  return Difference<pb::ClientMessage>(bytes, DecodeClientMessage);
}

std::string DifferenceAsServerMessage(std::span<const std::byte> bytes) {
  return Difference<pb::ServerMessage>(bytes, DecodeServerMessage);
}

}  // namespace nd::session
