// SPDX-License-Identifier: Apache-2.0
// Converts networks and users from text to the types of the core.
#include "daemon/config_rules.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/os/host.h"

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

// Accepts a number, or a name of the database of the system.
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
    reader.Wrong(*node, "\"" + *name + "\" is not known to this system as " + std::string(key));
    return;
  }
  reader.Wrong(*node, "\"" + std::string(key) + "\" in " + reader.name() + " must be a number or a name");
}

// Kubernetes allows these characters only, so another name would match no pod.
bool IsPodText(std::string_view text) {
  return !text.empty() && text.size() <= 253 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

void ReadPodKey(TableReader& match, std::string_view key, std::optional<std::string>* out) {
  std::string text;
  if (!match.String(key, &text)) return;
  if (!IsPodText(text)) {
    return match.Wrong(*match.table().get(key),
                       "\"" + std::string(key) + "\" in " + match.name() + " is \"" + text +
                           "\"; it must be a name of Kubernetes: lower-case letters, digits, '-' and '.'");
  }
  *out = std::move(text);
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
    return BadPrefix(text, "has text after the address that is neither a prefix length nor a port");

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
  reader.EntryName("rule", true, &rule.name);
  if (const toml::table* table = reader.Table("match")) {
    TableReader match(*table, "\"match\" of [[rule]]", reader.findings());
    match.NameSettings("rule." + rule.name + ".match", true);
    ReadId(match, "uid", os::FindUser, &rule.uid);
    ReadId(match, "gid", os::FindGroup, &rule.gid);
    std::string cgroup;
    if (match.String("cgroup", &cgroup)) rule.cgroup = cgroup.starts_with('/') ? cgroup : "/" + cgroup;
    ReadPodKey(match, "pod-namespace", &rule.pod_namespace);
    ReadPodKey(match, "pod", &rule.pod);
    ReadPodKey(match, "service-account", &rule.service_account);
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

}  // namespace nd::config
