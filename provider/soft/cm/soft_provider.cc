// SPDX-License-Identifier: Apache-2.0
// The keys of soft with their ranges.
#include "provider/soft/cm/soft_provider.h"

#include <charconv>

#include "provider/soft/cm/soft_cm.h"

namespace nd::provider::soft {
namespace {

bool IsHostAddress(const Result<Address>& address) {
  return address.ok() && address->port() == 0 && !address->unspecified() && !address->multicast();
}

AdapterOptions ReadAdapter(OptionTable& table) {
  AdapterOptions adapter;
  table.EntryName(&adapter.name);
  table.Texts("addresses", [&](const std::string& text) -> std::string {
    const Result<Address> address = Address::Parse(text);
    if (!IsHostAddress(address)) return "\"" + text + "\" is not an address of a host without a port";
    adapter.addresses.push_back(address.value());
    return {};
  });
  std::string mode = "separate";
  if (table.String("mode", &mode)) {
    if (mode != "separate" && mode != "tcp") {
      table.Refuse("mode", "\"mode\" in [[adapter]] is \"" + mode + "\"; it must be \"separate\" or \"tcp\"");
    }
    adapter.tcp_mode = mode == "tcp";
  }
  table.Number("tcp-port", 1, 65535, &adapter.tcp_port);
  table.Networks("tcp-networks", [&](const Address& network, std::uint8_t bits) {
    adapter.tcp_networks.push_back({network, bits});
  });
  table.Bool("crc", &adapter.crc);
  table.Bool("datagrams", &adapter.datagrams);
  table.Number("max-inbound-read-limit", 0, 16383, &adapter.max_inbound_read_limit);
  table.Number("max-outbound-read-limit", 0, 16383, &adapter.max_outbound_read_limit);
  return adapter;
}

}  // namespace

void SoftProvider::Read(std::string_view table, OptionTable& options) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  if (table == "limits") {
    options.Number("half-open-connections", 16, 1'000'000, &options_.max_half_open);
  } else if (table == "timeouts") {
    options.Time("connect", milliseconds(10), hours(1), &options_.connect_timeout);
    options.Time("request", milliseconds(10), hours(1), &options_.request_timeout);
    options.Time("keepalive", std::chrono::seconds(1), hours(24), &options_.keepalive);
  } else if (table == "adapter") {
    options_.adapters.push_back(ReadAdapter(options));
  }
}

std::vector<DaemonProvider::Flag> SoftProvider::flags() const {
  return {{"adapter-address", "Only this address on the first adapter (repeatable)", true},
          {"tcp-port", "TCP port of the first adapter", false}};
}

Result<DaemonProvider::Change> SoftProvider::Apply(std::string_view flag,
                                                   const std::vector<std::string>& values) {
  AdapterOptions& adapter = options_.adapters.front();
  const std::string setting = "adapter." + adapter.name + ".";
  if (flag == "tcp-port") {
    const std::string& text = values.back();
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0) {
      return Status(StatusCode::kInvalidParameter,
                    "--tcp-port " + text + ": this is not a whole number from 1 to 65535");
    }
    adapter.tcp_port = port;
    return Change{setting + "tcp-port", text};
  }
  std::string all;
  adapter.addresses.clear();
  for (const std::string& text : values) {
    const Result<Address> address = Address::Parse(text);
    if (!IsHostAddress(address)) {
      return Status(StatusCode::kInvalidParameter,
                    "--adapter-address " + text + ": this is not an address of a host without a port");
    }
    adapter.addresses.push_back(address.value());
    all += (all.empty() ? "" : ", ") + text;
  }
  return Change{setting + "addresses", all};
}

Result<std::unique_ptr<ConnectionManager>> SoftProvider::Make(EventLoop& loop, CmSink& sink) const {
  return MakeSoftCm(options_, loop, sink, kept_);
}

}  // namespace nd::provider::soft
