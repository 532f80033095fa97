// SPDX-License-Identifier: Apache-2.0
// Checks the arithmetic of read limits, quotas and policy against their definitions.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "daemon/core/event.h"
#include "daemon/core/policy.h"
#include "daemon/core/quota.h"
#include "daemon/core/read_limits.h"
#include "tests/sim/model.h"

namespace nd::core {
namespace {

using sim::Model;

ReadLimits AnyLimits() {
  const auto number = [] {
    return *rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 20), rc::gen::arbitrary<std::uint32_t>());
  };
  return {number(), number()};
}

// ---- b.4
RC_GTEST_PROP(ReadLimits, BothEndsAgreeWithinTheirLimits, ()) {
  const ReadLimits active_caps = AnyLimits(), passive_caps = AnyLimits();
  const ReadLimits asked = AnyLimits(), granted = AnyLimits();
  const ReadLimits offer = CapOffer(asked, active_caps);
  const ReadLimits seen = PassiveView(offer, passive_caps);
  const ReadLimits passive = AcceptLimits(granted, offer, passive_caps);
  const std::optional<ReadLimits> active = ActiveFinal(offer, passive, active_caps);
  RC_ASSERT(active.has_value());
  // Each side accepts the reads that the other may send.
  RC_ASSERT(active->inbound == passive.outbound);
  RC_ASSERT(active->outbound == passive.inbound);
  // Never above the requested, offered, granted or supported limit.
  RC_ASSERT(active->inbound <=
            std::min({asked.inbound, active_caps.inbound, passive_caps.outbound, granted.outbound}));
  RC_ASSERT(active->outbound <=
            std::min({asked.outbound, active_caps.outbound, passive_caps.inbound, granted.inbound}));
  RC_ASSERT(passive.inbound <= seen.inbound);
  RC_ASSERT(passive.outbound <= seen.outbound);
  // Never lower than necessary.
  RC_ASSERT(active->inbound ==
            std::min({asked.inbound, active_caps.inbound, passive_caps.outbound, granted.outbound}));
  RC_ASSERT(active->outbound ==
            std::min({asked.outbound, active_caps.outbound, passive_caps.inbound, granted.inbound}));
}

RC_GTEST_PROP(ReadLimits, AskingForMoreNeverGivesLess, ()) {
  const ReadLimits caps = AnyLimits(), less = AnyLimits(), offer = AnyLimits();
  ReadLimits more = less;
  more.inbound += *rc::gen::inRange<std::uint32_t>(0, UINT32_MAX - less.inbound);
  more.outbound += *rc::gen::inRange<std::uint32_t>(0, UINT32_MAX - less.outbound);
  RC_ASSERT(CapOffer(more, caps).inbound >= CapOffer(less, caps).inbound);
  RC_ASSERT(CapOffer(more, caps).outbound >= CapOffer(less, caps).outbound);
  RC_ASSERT(AcceptLimits(more, offer, caps).inbound >= AcceptLimits(less, offer, caps).inbound);
  RC_ASSERT(AcceptLimits(more, offer, caps).outbound >= AcceptLimits(less, offer, caps).outbound);
  RC_ASSERT(CapOffer(CapOffer(more, caps), caps) == CapOffer(more, caps));
}

RC_GTEST_PROP(ReadLimits, TheCoreAndTheModelCountAlike, ()) {
  const ReadLimits asked = AnyLimits(), caps = AnyLimits(), other = AnyLimits();
  RC_ASSERT(CapOffer(asked, caps) == Model::Offer(asked, caps));
  RC_ASSERT(PassiveView(other, caps) == Model::PassiveSees(other, caps));
  RC_ASSERT(AcceptLimits(asked, other, caps) == Model::Granted(asked, other, caps));
  RC_ASSERT(ActiveFinal(asked, other, caps) == Model::ActiveEnds(asked, other, caps));
}

// A peer that asks for more than was offered gets it if this adapter supports it, and is refused otherwise.
RC_GTEST_PROP(ReadLimits, PeerAboveTheOfferIsServedOrRefused, ()) {
  const ReadLimits caps = AnyLimits(), offer = CapOffer(AnyLimits(), caps), peer = AnyLimits();
  const std::optional<ReadLimits> final = ActiveFinal(offer, peer, caps);
  RC_ASSERT(final.has_value() == (peer.outbound <= std::max(offer.inbound, caps.inbound)));
  if (!final) return;
  RC_ASSERT(final->inbound == peer.outbound);
  RC_ASSERT(final->inbound <= caps.inbound);
  RC_ASSERT(final->outbound <= offer.outbound);
  RC_ASSERT(final->outbound <= peer.inbound);
}

// ---- quota
RC_GTEST_PROP(Quota, ChargesAndReleasesCommuteAndEqualTheRecount, ()) {
  Quota quota;
  std::vector<Quota::Token> held;
  const int moves = *rc::gen::inRange(1, 60);
  for (int i = 0; i < moves; ++i) {
    const auto what = *rc::gen::inRange(0, 4);
    if (what == 0 && !held.empty()) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, held.size())));
    } else if (what == 1 && held.size() > 1) {
      // Moving a token does not charge again.
      Quota::Token moved = std::move(held.back());
      held.pop_back();
      held.insert(held.begin(), std::move(moved));
    } else {
      const auto uid = *rc::gen::inRange<std::uint32_t>(0, 3);
      const auto resource = static_cast<Resource>(*rc::gen::inRange<int>(0, static_cast<int>(kResources)));
      const auto limit = *rc::gen::inRange<std::uint32_t>(0, 6);
      const auto have = static_cast<std::uint32_t>(std::ranges::count_if(
          held, [&](const Quota::Token& t) { return t.uid() == uid && t.resource() == resource; }));
      std::optional<Quota::Token> token = quota.Charge(uid, resource, limit);
      RC_ASSERT(token.has_value() == (have < limit));
      if (token) held.push_back(std::move(*token));
    }
    std::map<std::uint32_t, Quota::Usage> recount;
    for (const Quota::Token& t : held) ++recount[t.uid()][static_cast<std::size_t>(t.resource())];
    const std::map<std::uint32_t, Quota::Usage> counted(quota.usage().begin(), quota.usage().end());
    RC_ASSERT(counted == recount);
  }
  while (!held.empty()) {
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, held.size())));
  }
  RC_ASSERT(quota.usage().empty());
}

// ---- policy
Address AnyAddress() {
  const auto byte = [] { return *rc::gen::element<std::uint8_t>(0, 1, 10, 127, 128, 255); };
  const auto port = *rc::gen::element<std::uint16_t>(0, 1, 80, 443, 7000, 65535);
  if (*rc::gen::inRange(0, 4) == 0) {
    std::array<std::uint8_t, 16> ip{};
    ip[0] = byte();
    ip[15] = byte();
    return Address::V6(ip, port);
  }
  return Address::V4({byte(), byte(), 0, byte()}, port);
}

std::optional<std::vector<Prefix>> AnyPrefixes() {
  if (*rc::gen::inRange(0, 3) == 0) return std::nullopt;
  std::vector<Prefix> prefixes(*rc::gen::inRange<std::size_t>(0, 4));
  for (Prefix& prefix : prefixes) {
    prefix.network = AnyAddress().WithPort(0);
    prefix.bits = *rc::gen::inRange<std::uint8_t>(0, 140);
    prefix.first_port = *rc::gen::element<std::uint16_t>(0, 80, 7000);
    prefix.last_port = *rc::gen::element<std::uint16_t>(79, 443, 65535);
  }
  return prefixes;
}

std::string AnyCgroup() {
  return *rc::gen::element<std::string>("", "/", "/jobs", "/jobs/", "/jobs/a", "/jobs/ab", "/other");
}

std::string AnyPodText() {
  return *rc::gen::element<std::string>("a", "b");
}

std::vector<Rule> AnyRules() {
  std::vector<Rule> rules(*rc::gen::inRange<std::size_t>(0, 6));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    Rule& rule = rules[i];
    if (*rc::gen::inRange(0, 4) != 0) rule.name = "rule" + std::to_string(i);
    if (*rc::gen::inRange(0, 3) == 0) rule.uid = *rc::gen::inRange<std::uint32_t>(0, 3);
    if (*rc::gen::inRange(0, 3) == 0) rule.gid = *rc::gen::inRange<std::uint32_t>(0, 3);
    if (*rc::gen::inRange(0, 3) == 0) rule.cgroup = AnyCgroup();
    if (*rc::gen::inRange(0, 5) == 0) rule.pod_namespace = AnyPodText();
    if (*rc::gen::inRange(0, 5) == 0) rule.pod = AnyPodText();
    if (*rc::gen::inRange(0, 5) == 0) rule.service_account = AnyPodText();
    rule.listen = AnyPrefixes();
    rule.connect = AnyPrefixes();
  }
  return rules;
}

// Compares bit by bit.
bool Covers(const Prefix& prefix, const Address& address) {
  if (prefix.network.family() != address.family()) return false;
  if (address.port() < prefix.first_port || address.port() > prefix.last_port) return false;
  const std::size_t bits = std::min<std::size_t>(prefix.bits, address.ip().size() * 8);
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const auto at = [&](const Address& a) {
      return (static_cast<unsigned char>(a.ip()[bit / 8]) >> (7 - bit % 8)) & 1;
    };
    if (at(prefix.network) != at(address)) return false;
  }
  return true;
}

bool Inside(std::string job, const std::string& cgroup) {
  while (job.size() > 1 && job.back() == '/') job.pop_back();
  if (job.empty() || job == "/") return cgroup.starts_with(job);
  return cgroup == job || cgroup.starts_with(job + "/");
}

// 200 questions for each of RapidCheck's policies: 100,000 with the 500 that CI asks for.
RC_GTEST_PROP(Policy, ExplainEqualsDecideAndBothEqualTheDefinition, ()) {
  const std::vector<Rule> rules = AnyRules();
  const Policy policy(rules);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  // A few of each in all combinations, which is faster than generating each question.
  std::vector<Address> addresses;
  for (int i = 0; i < 10; ++i) addresses.push_back(AnyAddress());
  const std::vector<std::string> cgroups = {AnyCgroup(), AnyCgroup()};
  for (std::uint64_t question = 0; question < 200; ++question) {
    Identity who;
    const std::uint64_t mix = seed + question * 0x9E3779B97F4A7C15u;
    who.uid = mix >> 60 & 3;
    who.gid = mix >> 58 & 3;
    who.cgroup = cgroups[mix >> 57 & 1];
    const auto text = [&](int bit) { return std::array{"", "a", "b", "a"}[mix >> bit & 3]; };
    who.pod = {text(55), text(53), text(51)};
    const Address& address = addresses[question % addresses.size()];
    const PolicyVerb verb = question / 10 % 2 == 0 ? PolicyVerb::kListen : PolicyVerb::kConnect;
    const Verdict decided = policy.Decide(verb, who, address);
    const Explanation explained = policy.Explain(verb, who, address);
    RC_ASSERT(decided.allowed == explained.verdict.allowed);
    RC_ASSERT(decided.rule == explained.verdict.rule);
    RC_ASSERT(decided.reason == explained.verdict.reason);
    bool allowed = true, settled = false;
    std::size_t looked = 0;
    for (const Rule& rule : rules) {
      if (settled) break;
      using enum RuleStep::Match;
      RuleStep::Match match = kSilent;
      const auto& list = verb == PolicyVerb::kListen ? rule.listen : rule.connect;
      if (rule.uid && *rule.uid != who.uid) {
        match = kOtherUid;
      } else if (rule.gid && *rule.gid != who.gid) {
        match = kOtherGid;
      } else if (rule.cgroup && !Inside(*rule.cgroup, who.cgroup)) {
        match = kOtherCgroup;
      } else if ((rule.pod_namespace && *rule.pod_namespace != who.pod.namespace_name) ||
                 (rule.pod && *rule.pod != who.pod.name) ||
                 (rule.service_account && *rule.service_account != who.pod.service_account)) {
        match = kOtherPod;
      } else if (list) {
        allowed = std::ranges::any_of(*list, [&](const Prefix& p) { return Covers(p, address); });
        match = allowed ? kAllows : kForbids;
        settled = true;
      }
      RC_ASSERT(looked < explained.steps.size());
      RC_ASSERT(explained.steps[looked].match == match);
      RC_ASSERT(!explained.steps[looked].reason.empty());
      ++looked;
    }
    RC_ASSERT(explained.steps.size() == looked);
    RC_ASSERT(decided.allowed == allowed);
    RC_ASSERT((decided.rule == "default") == !settled);
  }
}

}  // namespace
}  // namespace nd::core
