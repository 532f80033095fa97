// SPDX-License-Identifier: Apache-2.0
// Words for networks, users and adapters turned into what the core and the provider take.
#include "daemon/config_rules.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace nd::config {
namespace {

bool ParseNumber(std::string_view text, std::uint32_t max, std::uint32_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out <= max;
}

Status BadPrefix(const std::string& text, const std::string& why) {
  return {StatusCode::kInvalidParameter,
          "\"" + text + "\" " + why +
              "; write it like \"192.0.2.0/24:4420\", \"[2001:db8::]/64:7000-7010\", \"10.0.0.1\" or \"*\""};
}

// A number or a name of the system's database.
template <typename Lookup>
void ReadId(TableReader& reader, std::string_view key, Lookup lookup, std::optional<std::uint32_t>* out) {
  const toml::node* node = reader.Any(key);
  if (node == nullptr) return;
  if (const auto number = node->value_exact<std::int64_t>();
      number && *number >= 0 && *number <= 0xFFFFFFFE) {
    *out = static_cast<std::uint32_t>(*number);
    return reader.Record(key, std::to_string(*number));
  }
  if (const auto name = node->value_exact<std::string>()) {
    if ((*out = lookup(*name))) return reader.Record(key, *name);
    reader.Wrong(*node, "\"" + *name + "\" is not a name that this system knows as " + std::string(key));
    return;
  }
  reader.Wrong(*node, "\"" + std::string(key) + "\" in " + reader.name() + " must be a number or a name");
}

void ReadPrefixes(TableReader& reader, std::string_view key, std::optional<std::vector<core::Prefix>>* out) {
  std::vector<core::Prefix> prefixes;
  const bool there = reader.Strings(key, [&](const std::string& text, const toml::node& node) {
    Result<std::vector<core::Prefix>> parsed = ParsePrefixes(text);
    if (!parsed.ok()) return reader.Wrong(node, parsed.status().message());
    prefixes.insert(prefixes.end(), parsed->begin(), parsed->end());
  });
  if (there) *out = std::move(prefixes);
}

bool GoodName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

// Names what follows, so it is no setting itself.
void ReadName(TableReader& reader, const char* list, bool only_given, std::string* out) {
  if (const toml::node* node = reader.Any("name")) {
    const auto name = node->value_exact<std::string>();
    if (name && GoodName(*name)) {
      *out = *name;
    } else {
      reader.Wrong(*node, "a name is 1 to 64 of A-Z a-z 0-9 . _ -");
    }
  }
  reader.NameSettings(list + ("." + *out), only_given);
}

}  // namespace

Result<std::vector<core::Prefix>> ParsePrefixes(const std::string& text) {
  std::string_view rest = text;
  std::string_view ip;
  bool any = false;
  if (rest.starts_with('*')) {
    any = true;
    rest.remove_prefix(1);
  } else if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == rest.npos) return BadPrefix(text, "has no closing bracket");
    ip = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    // An IPv6 address without brackets has no port.
    const bool v6 = std::count(rest.begin(), rest.end(), ':') > 1;
    const std::size_t end = rest.find_first_of(v6 ? "/" : "/:");
    ip = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view() : rest.substr(end);
  }
  std::string_view bits_text, ports;
  if (rest.starts_with('/')) {
    const std::size_t end = rest.find(':');
    bits_text = rest.substr(1, end == rest.npos ? rest.npos : end - 1);
    if (bits_text.empty()) return BadPrefix(text, "has no prefix length after the slash");
    rest = end == rest.npos ? std::string_view() : rest.substr(end);
  }
  if (rest.starts_with(':')) {
    ports = rest.substr(1);
    if (ports.empty()) return BadPrefix(text, "has no port after the colon");
    rest = {};
  }
  if (!rest.empty())
    return BadPrefix(text, "has something after the address that is no prefix length or port");

  std::uint32_t first = 0, last = 65535;
  if (!ports.empty() && ports != "*") {
    const std::size_t dash = ports.find('-');
    if (!ParseNumber(ports.substr(0, dash), 65535, &first)) return BadPrefix(text, "has a bad port");
    last = first;
    if (dash != ports.npos && !ParseNumber(ports.substr(dash + 1), 65535, &last)) {
      return BadPrefix(text, "has a bad last port");
    }
    if (last < first) return BadPrefix(text, "has a port range that ends before it begins");
  }
  const auto prefix = [&](const Address& network, std::uint32_t bits) {
    return core::Prefix{network, static_cast<std::uint8_t>(bits), static_cast<std::uint16_t>(first),
                        static_cast<std::uint16_t>(last)};
  };
  if (any) {
    if (!bits_text.empty()) return BadPrefix(text, "has a prefix length after \"*\"");
    return std::vector{prefix(Address::V4({}), 0), prefix(Address::V6({}), 0)};
  }
  const Result<Address> address = Address::Parse(ip);
  if (!address.ok() || address->port() != 0 || ip.find('[') != ip.npos)
    return BadPrefix(text, "has a bad address");
  const std::uint32_t width = address->family() == Address::Family::kIpv4 ? 32 : 128;
  std::uint32_t bits = width;
  if (!bits_text.empty() && !ParseNumber(bits_text, width, &bits)) {
    return BadPrefix(text, "has a prefix length that is not 0 to " + std::to_string(width));
  }
  return std::vector{prefix(address.value(), bits)};
}

core::Rule ReadRule(TableReader reader, std::size_t number) {
  core::Rule rule;
  rule.name = "rule-" + std::to_string(number);
  ReadName(reader, "rule", true, &rule.name);
  if (const toml::table* table = reader.Table("match")) {
    TableReader match(*table, "\"match\" of [[rule]]", reader.findings());
    match.NameSettings("rule." + rule.name + ".match", true);
    ReadId(
        match, "uid",
        [](const std::string& name) -> std::optional<std::uint32_t> {
          const passwd* entry = ::getpwnam(name.c_str());
          return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->pw_uid);
        },
        &rule.uid);
    ReadId(
        match, "gid",
        [](const std::string& name) -> std::optional<std::uint32_t> {
          const group* entry = ::getgrnam(name.c_str());
          return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->gr_gid);
        },
        &rule.gid);
    std::string cgroup;
    if (match.String("cgroup", &cgroup)) rule.cgroup = cgroup.starts_with('/') ? cgroup : "/" + cgroup;
    match.Done();
  }
  ReadPrefixes(reader, "listen", &rule.listen);
  ReadPrefixes(reader, "connect", &rule.connect);
  if (const toml::table* table = reader.Table("quota")) {
    TableReader quota(*table, "\"quota\" of [[rule]]", reader.findings());
    quota.NameSettings("rule." + rule.name + ".quota", true);
    const auto read = [&](std::string_view key, std::optional<std::uint32_t>* out) {
      std::uint32_t value = 0;
      if (quota.Number(key, 0, 16'000'000, &value)) *out = value;
    };
    read("sessions", &rule.limits.sessions);
    read("connectors", &rule.limits.connectors);
    read("listeners", &rule.limits.listeners);
    read("shared-endpoints", &rule.limits.shared_endpoints);
    read("queue-pairs", &rule.limits.queue_pairs);
    read("ports", &rule.limits.ports);
    quota.Done();
  }
  reader.Done();
  return rule;
}

provider::soft::AdapterOptions ReadAdapter(TableReader reader) {
  provider::soft::AdapterOptions adapter;
  ReadName(reader, "adapter", false, &adapter.name);
  reader.Strings("addresses", [&](const std::string& text, const toml::node& node) {
    Result<Address> address = Address::Parse(text);
    if (!address.ok() || address->port() != 0 || address->unspecified() || address->multicast()) {
      return reader.Wrong(node, "\"" + text + "\" is not an address of a host without a port");
    }
    adapter.addresses.push_back(*address);
  });
  std::string mode = "separate";
  if (reader.String("mode", &mode)) {
    if (mode != "separate" && mode != "tcp") {
      reader.Wrong(*reader.table().get("mode"),
                   "\"mode\" in [[adapter]] is \"" + mode + "\"; it must be \"separate\" or \"tcp\"");
    }
    adapter.tcp_mode = mode == "tcp";
  }
  reader.Number("tcp-port", 1, 65535, &adapter.tcp_port);
  reader.Strings("tcp-networks", [&](const std::string& text, const toml::node& node) {
    Result<std::vector<core::Prefix>> parsed = ParsePrefixes(text);
    if (!parsed.ok()) return reader.Wrong(node, parsed.status().message());
    for (const core::Prefix& prefix : *parsed) {
      if (prefix.first_port != 0 || prefix.last_port != 65535) {
        return reader.Wrong(node, "\"" + text + "\" has a port; a network of \"tcp-networks\" has none");
      }
      adapter.tcp_networks.push_back({prefix.network, prefix.bits});
    }
  });
  reader.Bool("crc", &adapter.crc);
  reader.Number("max-inbound-read-limit", 0, 16383, &adapter.max_inbound_read_limit);
  reader.Number("max-outbound-read-limit", 0, 16383, &adapter.max_outbound_read_limit);
  reader.Done();
  return adapter;
}

}  // namespace nd::config
