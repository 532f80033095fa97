// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/cm/probe_output.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <utility>

#include "provider/networkdirect/messages.h"

namespace nd::provider::networkdirect {
namespace {

// Calls each(name, number) for every number of an adapter.
template <typename Info, typename Each>
void EachNumber(Info& info, Each each) {
  each("id", info.adapter_id);
  each("vendor", info.vendor_id);
  each("device", info.device_id);
  each("flags", info.flags);
  each("registration-size", info.max_registration_size);
  each("window-size", info.max_window_size);
  each("initiator-sge", info.max_initiator_sge);
  each("receive-sge", info.max_receive_sge);
  each("read-sge", info.max_read_sge);
  each("transfer-length", info.max_transfer_length);
  each("inline-data", info.max_inline_data_size);
  each("inbound-reads", info.max_inbound_read_limit);
  each("outbound-reads", info.max_outbound_read_limit);
  each("receive-depth", info.max_receive_queue_depth);
  each("initiator-depth", info.max_initiator_queue_depth);
  each("shared-depth", info.max_shared_receive_queue_depth);
  each("completion-depth", info.max_completion_queue_depth);
  each("inline-threshold", info.inline_request_threshold);
  each("large-threshold", info.large_request_threshold);
  each("caller-data", info.max_caller_data);
  each("callee-data", info.max_callee_data);
}

std::string_view TakeUntil(char end, std::string_view* rest) {
  const std::size_t at = std::min(rest->find(end), rest->size());
  const std::string_view taken = rest->substr(0, at);
  rest->remove_prefix(std::min(at + 1, rest->size()));
  return taken;
}

bool ReadWord(std::string_view word, AdapterInfo* info) {
  const std::string_view name = TakeUntil('=', &word);
  if (name == "address") {
    const Result<Address> address = Address::Parse(word);
    if (!address.ok() || address->port() != 0) return false;
    info->addresses.push_back(*address);
    return true;
  }
  bool read = false;
  EachNumber(*info, [&](std::string_view known, auto& number) {
    if (known != name) return;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    read = error == std::errc() && end == word.data() + word.size();
  });
  return read;
}

// The flags that nd::AdapterFlags shares with Network Direct.
constexpr std::uint32_t kKnownFlags = kAdapterInOrderDma | kAdapterReadSinkNotRequired |
                                      kAdapterCqInterruptModeration | kAdapterMultiEngine | kAdapterCqResize |
                                      kAdapterLoopback;

}  // namespace

std::string LineOf(const AdapterInfo& info) {
  std::string line = "adapter";
  EachNumber(info, [&line](const char* name, auto number) {
    line += std::string(" ") + name + "=" + std::to_string(number);
  });
  for (const Address& address : info.addresses) line += " address=" + address.IpToString();
  return line + "\n";
}

Result<std::vector<AdapterInfo>> ReadProbe(std::string_view text, std::uint32_t exit_code) {
  std::vector<AdapterInfo> all;
  bool done = false;
  while (!text.empty()) {
    std::string_view line = TakeUntil('\n', &text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view kind = TakeUntil(' ', &line);
    if (kind == "failed") return Status(StatusCode::kDeviceNotReady, std::string(line));
    if (kind == "done") {
      done = true;
      continue;
    }
    AdapterInfo info;
    bool right = kind == "adapter" && !done;
    while (right && !line.empty()) right = ReadWord(TakeUntil(' ', &line), &info);
    // A debugger of the system may write about a fault.
    if (!right && exit_code > 1) break;
    if (!right) return Status(StatusCode::kRemoteError, "the probe of the adapters wrote something else");
    info.flags &= kKnownFlags;
    info.max_caller_data = std::min<std::uint32_t>(info.max_caller_data, kMaxData);
    info.max_callee_data = std::min<std::uint32_t>(info.max_callee_data, kMaxData);
    all.push_back(std::move(info));
  }
  if (done) return all;
  std::array<char, 16> code;
  std::snprintf(code.data(), code.size(), "0x%08X", static_cast<unsigned>(exit_code));
  return Status(StatusCode::kDeviceNotReady,
                std::string("its DLL ended the process that asked for its properties (exit code ") +
                    code.data() + "); install another version of it");
}

}  // namespace nd::provider::networkdirect
