// SPDX-License-Identifier: Apache-2.0
// Turns options and interface addresses into adapters.
#include "provider/soft/cm/adapter_set.h"

#include <algorithm>
#include <set>

#include "provider/soft/limits.h"

namespace nd::provider::soft {
namespace {

// FNV-1a: ids must stay equal across restarts and differ between adapters.
std::uint64_t IdOf(const std::string& name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

Status Invalid(std::string text) {
  return {StatusCode::kInvalidParameter, std::move(text)};
}

}  // namespace

bool Contains(const Network& network, const Address& address) {
  if (network.address.family() != address.family()) return false;
  const std::string_view a = network.address.ip(), b = address.ip();
  if (a.size() != b.size() || network.bits > a.size() * 8) return false;
  const std::size_t whole = network.bits / 8;
  if (a.substr(0, whole) != b.substr(0, whole)) return false;
  const unsigned rest = network.bits % 8;
  if (rest == 0) return true;
  const unsigned mask = 0xFFu << (8 - rest) & 0xFFu;
  return ((static_cast<unsigned char>(a[whole]) ^ static_cast<unsigned char>(b[whole])) & mask) == 0;
}

bool Adapter::Has(const Address& ip) const {
  return std::ranges::any_of(addresses, [&](const Address& own) { return own.same_ip(ip); });
}

PortMode Adapter::ModeFor(const Address& remote) const {
  const bool listed = std::ranges::any_of(options.tcp_networks,
                                          [&](const Network& network) { return Contains(network, remote); });
  return options.tcp_mode || listed ? PortMode::kTcp : PortMode::kSeparate;
}

HandshakeConfig Adapter::Handshake(PortMode mode) const {
  return {mode, options.crc, std::min(options.max_inbound_read_limit, kMaxReadLimit)};
}

Result<AdapterSet> AdapterSet::Make(const Options& options, const std::vector<Address>& host_addresses) {
  AdapterSet set;
  std::set<std::string> names;
  std::set<Address> taken;
  bool follower = false;
  for (const AdapterOptions& wanted : options.adapters) {
    if (wanted.name.empty() || !names.insert(wanted.name).second) {
      return Invalid("adapter names must be unique and not empty: '" + wanted.name + "'");
    }
    if (!wanted.tcp_mode && wanted.tcp_port == 0) {
      return Invalid("adapter " + wanted.name + ": tcp_port must be 1-65535 in separate mode");
    }
    for (const Network& network : wanted.tcp_networks) {
      if (!network.address.well_formed() || network.bits > network.address.ip().size() * 8) {
        return Invalid("adapter " + wanted.name + ": a network of tcp_networks makes no sense");
      }
    }
    Adapter adapter;
    adapter.options = wanted;
    adapter.follows_host = wanted.addresses.empty();
    if (adapter.follows_host && follower) {
      return Invalid("adapter " + wanted.name + ": only one adapter can have all addresses of the host");
    }
    follower = follower || adapter.follows_host;
    for (const Address& address : wanted.addresses) {
      if (!address.well_formed() || address.unspecified() || address.multicast()) {
        return Invalid("adapter " + wanted.name + ": " + address.IpToString() +
                       " cannot be an adapter's address");
      }
      if (!taken.insert(address.WithPort(0)).second) {
        return Invalid("adapter " + wanted.name + ": address " + address.IpToString() +
                       " is configured twice");
      }
      adapter.addresses.push_back(address.WithPort(0));
    }
    std::ranges::sort(adapter.addresses);
    set.adapters_.push_back(std::move(adapter));
  }
  set.Refresh(host_addresses);
  return set;
}

bool AdapterSet::Refresh(const std::vector<Address>& host_addresses) {
  bool changed = false;
  for (Adapter& adapter : adapters_) {
    if (!adapter.follows_host) continue;
    std::vector<Address> now;
    for (const Address& address : host_addresses) {
      const bool claimed = std::ranges::any_of(
          adapters_, [&](const Adapter& other) { return !other.follows_host && other.Has(address); });
      if (!claimed) now.push_back(address.WithPort(0));
    }
    std::ranges::sort(now);
    now.erase(std::unique(now.begin(), now.end()), now.end());
    if (now == adapter.addresses) continue;
    adapter.addresses = std::move(now);
    changed = true;
  }
  return changed;
}

const Adapter* AdapterSet::Model() const {
  const auto separate = [](const Adapter& adapter) { return !adapter.options.tcp_mode; };
  const auto found = std::ranges::find_if(adapters_, separate);
  return found == adapters_.end() ? nullptr : &*found;
}

const Adapter* AdapterSet::AddNetwork(std::uint64_t network, std::vector<Address> addresses) {
  const Adapter* const model = Model();
  if (model == nullptr || networks_.contains(network)) return nullptr;
  Adapter& adapter = networks_[network];
  adapter.options = model->options;
  adapter.options.name += "@" + std::to_string(network);
  adapter.options.tcp_networks.clear();  // The broker holds no TCP ports there.
  adapter.options.addresses.clear();
  adapter.network = network;
  adapter.addresses = std::move(addresses);
  return &adapter;
}

bool AdapterSet::RefreshNetwork(std::uint64_t network, std::vector<Address> addresses) {
  const auto found = networks_.find(network);
  if (found == networks_.end() || found->second.addresses == addresses) return false;
  found->second.addresses = std::move(addresses);
  return true;
}

const Adapter* AdapterSet::OfNetwork(std::uint64_t network) const {
  const auto found = networks_.find(network);
  return found == networks_.end() ? nullptr : &found->second;
}

const Adapter* AdapterSet::Find(const std::string& name) const {
  const auto found = std::ranges::find(adapters_, name, [](const Adapter& a) { return a.options.name; });
  if (found != adapters_.end()) return &*found;
  for (const auto& [network, adapter] : networks_) {
    if (adapter.options.name == name) return &adapter;
  }
  return nullptr;
}

const Adapter* AdapterSet::Owner(const Address& ip, std::uint64_t network) const {
  if (network != 0) {
    const Adapter* const adapter = OfNetwork(network);
    return adapter != nullptr && adapter->Has(ip) ? adapter : nullptr;
  }
  const auto found = std::ranges::find_if(adapters_, [&](const Adapter& a) { return a.Has(ip); });
  return found == adapters_.end() ? nullptr : &*found;
}

std::vector<AdapterDescription> AdapterSet::Describe() const {
  std::vector<AdapterDescription> all;
  const auto describe = [&all](const Adapter& adapter) {
    const AdapterOptions& options = adapter.options;
    AdapterDescription description;
    FillSoftAdapterInfo(&description.info);
    AdapterInfo& info = description.info;
    info.name = options.name;
    info.adapter_id = IdOf(options.name);
    info.max_inbound_read_limit = std::min(options.max_inbound_read_limit, info.max_inbound_read_limit);
    info.max_outbound_read_limit = std::min(options.max_outbound_read_limit, info.max_outbound_read_limit);
    info.max_caller_data = static_cast<std::uint32_t>(options.tcp_mode ? kMaxTcpData : kMaxSeparateData);
    info.max_callee_data = info.max_caller_data;
    info.addresses = adapter.addresses;
    if (!options.datagrams) info.flags |= kAdapterNoDatagrams;
    description.mode = options.tcp_mode ? "tcp" : "separate";
    description.tcp_port = options.tcp_mode ? std::uint16_t{0} : options.tcp_port;
    description.reserve_ports = description.keep_ports = adapter.HoldsTcpPorts();
    description.network = adapter.network;
    all.push_back(std::move(description));
  };
  for (const Adapter& adapter : adapters_) describe(adapter);
  for (const auto& [network, adapter] : networks_) describe(adapter);
  return all;
}

}  // namespace nd::provider::soft
