// SPDX-License-Identifier: Apache-2.0
// A configuration file of arbitrary bytes: it gives settings, or every error with its position; then the
// policy of the settings is checked.
//
// Input: the text.
#include <algorithm>

#include "daemon/config.h"
#include "daemon/config_rules.h"
#include "daemon/core/event.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

// Checks that every line has the form FILE:LINE:COLUMN: text.
void CheckMistakes(const std::string& message) {
  Require(!message.empty(), "a refused file has a reason");
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    const std::string line = message.substr(at, end - at);
    at = end + 1;
    unsigned row = 0, column = 0;
    int used = 0;
    const int found = std::sscanf(line.c_str(), "broker.toml:%u:%u: %n", &row, &column, &used);
    Require(found == 2 && used > 0 && static_cast<std::size_t>(used) < line.size(),
            "a mistake has its place");
    for (const char c : line) Require(static_cast<unsigned char>(c) >= 0x20, "a mistake can be printed");
  }
}

// A network contains an address when their first bits agree. Computed bit by bit, as a reference.
bool Contains(const core::Prefix& prefix, const Address& address) {
  if (prefix.network.family() != address.family()) return false;
  if (address.port() < prefix.first_port || address.port() > prefix.last_port) return false;
  for (unsigned bit = 0; bit < prefix.bits; ++bit) {
    const auto of = [&](const Address& one) {
      return static_cast<unsigned char>(one.ip()[bit / 8]) >> (7 - bit % 8) & 1;
    };
    if (of(prefix.network) != of(address)) return false;
  }
  return true;
}

bool About(const core::Rule& rule, const core::Identity& who) {
  return (!rule.uid || *rule.uid == who.uid) && (!rule.gid || *rule.gid == who.gid);
}

// The first match decides. A rule without a statement is skipped. Without any rule the action is allowed.
void CheckPolicy(const std::vector<core::Rule>& rules) {
  const core::Policy policy(rules);
  for (const char* text : {"10.0.0.1:80", "192.0.2.7:4420", "[2001:db8::1]:7000", "[::1]:1"}) {
    const Address address = Address::Parse(text).value();
    for (const std::uint32_t uid : {0u, 1000u}) {
      core::Identity who;
      who.uid = who.gid = uid;
      who.cgroup = "/";
      for (const bool listen : {true, false}) {
        const core::Verdict verdict =
            listen ? policy.MayListen(who, address) : policy.MayConnect(who, address);
        Require(!verdict.rule.empty() && !verdict.reason.empty(), "a verdict can be explained");
        bool skipped = false, allowed = true;
        for (const core::Rule& rule : rules) {
          // The matching of cgroups and pods is not modelled.
          if (rule.cgroup || rule.pod_namespace || rule.pod || rule.service_account) {
            skipped = true;
            break;
          }
          const auto& prefixes = listen ? rule.listen : rule.connect;
          if (!About(rule, who) || !prefixes) continue;
          allowed = std::any_of(prefixes->begin(), prefixes->end(),
                                [&](const core::Prefix& prefix) { return Contains(prefix, address); });
          break;
        }
        Require(skipped || verdict.allowed == allowed, "the first rule that says something decides");
      }
      (void)policy.LimitsOf(who);
    }
  }
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed = nd::ParseConfig(text, "broker.toml");
  if (!parsed.ok()) {
    Require(parsed.status().code() == nd::StatusCode::kInvalidParameter, "a bad file is INVALID_PARAMETER");
    CheckMistakes(parsed.status().message());
    // Checks a single network by itself, too.
    const auto prefixes = nd::config::ParsePrefixes(text.substr(0, 64));
    Require(prefixes.ok() ? !prefixes->empty() : !prefixes.status().message().empty(),
            "a network, or why not");
    return 0;
  }
  const auto again = nd::ParseConfig(text, "broker.toml");
  Require(again.ok() && nd::NeedsRestart(*parsed, *again).empty(), "the same text means the same");
  Require(
      std::ranges::any_of(parsed->settings,
                          [](const nd::Setting& setting) { return setting.name.starts_with("adapter."); }),
      "there is an adapter");
  Require(parsed->core.ephemeral_first <= parsed->core.ephemeral_last, "the range of ports is one");
  CheckPolicy(parsed->rules);
  return 0;
}
