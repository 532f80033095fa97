// SPDX-License-Identifier: Apache-2.0
// The reports of Admin: rules, configuration, health and log.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "daemon/admin/admin_rows.h"
#include "daemon/admin/admin_service.h"
#include "daemon/admin/health_facts.h"
#include "daemon/ops/logging.h"
#include "daemon/shell/id_text.h"
#include "daemon/state/journal_file.h"

namespace nd::service {
namespace {

using core::Resource;

constexpr std::array<Resource, core::kResources> kAllResources = {
    Resource::kSessions,        Resource::kConnectors, Resource::kListeners,
    Resource::kSharedEndpoints, Resource::kQueuePairs, Resource::kPorts};
constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;

std::string ResourceName(Resource resource) {
  std::string name = core::Name(resource);
  std::ranges::replace(name, ' ', '_');
  return name;
}

std::string Text(const core::Prefix& prefix) {
  const bool v6 = prefix.network.family() == Address::Family::kIpv6;
  std::string text = v6 ? "[" + prefix.network.IpToString() + "]" : prefix.network.IpToString();
  text += "/" + std::to_string(prefix.bits) + ":";
  if (prefix.first_port == 0 && prefix.last_port == 65535) return text + "*";
  text += std::to_string(prefix.first_port);
  return prefix.first_port == prefix.last_port ? text : text + "-" + std::to_string(prefix.last_port);
}

void ToProto(const core::Rule& rule, pb::PolicyRule* out) {
  out->set_name(rule.name);
  if (rule.uid) out->set_uid(*rule.uid);
  if (rule.gid) out->set_gid(*rule.gid);
  if (rule.cgroup) out->set_cgroup(ops::Printable(*rule.cgroup, 4096));
  if (rule.pod_namespace) out->set_pod_namespace(*rule.pod_namespace);
  if (rule.pod) out->set_pod(*rule.pod);
  if (rule.service_account) out->set_service_account(*rule.service_account);
  if (rule.listen) {
    for (const core::Prefix& prefix : *rule.listen) out->mutable_listen()->add_items(Text(prefix));
    out->mutable_listen();
  }
  if (rule.connect) {
    for (const core::Prefix& prefix : *rule.connect) out->mutable_connect()->add_items(Text(prefix));
    out->mutable_connect();
  }
  for (const Resource resource : kAllResources) {
    if (const auto limit = core::LimitOf(rule.limits, resource)) {
      (*out->mutable_limits())[ResourceName(resource)] = *limit;
    }
  }
}

bool Decides(core::RuleStep::Match match) {
  return match == core::RuleStep::Match::kAllows || match == core::RuleStep::Match::kForbids;
}

void Explain(const core::Policy& policy, core::PolicyVerb verb, const core::Identity& who,
             const Address& address, pb::CheckPolicyReply* reply) {
  const core::Explanation explanation = policy.Explain(verb, who, address);
  reply->set_allowed(explanation.verdict.allowed);
  reply->set_rule(explanation.verdict.rule);
  reply->set_reason(explanation.verdict.reason);
  for (const core::RuleStep& step : explanation.steps) {
    pb::PolicyStep* out = reply->add_steps();
    out->set_rule(step.rule);
    out->set_matched(Decides(step.match));
    out->set_reason(step.reason);
  }
}

void ExplainLimits(const core::Policy& policy, const core::Identity& who, const core::Quota::Usage& usage,
                   pb::CheckPolicyReply* reply) {
  const core::Limits limits = policy.LimitsOf(who);
  bool room = true;
  for (const Resource resource : kAllResources) {
    pb::PolicyLimit* out = reply->add_limits();
    out->set_resource(ResourceName(resource));
    out->set_limit(core::LimitOf(limits, resource).value_or(kNoLimit));
    out->set_used(usage[static_cast<std::size_t>(resource)]);
    const auto decides = std::ranges::find_if(policy.rules(), [&](const core::Rule& rule) {
      return core::IsAbout(rule, who) && core::LimitOf(rule.limits, resource).has_value();
    });
    out->set_rule(decides == policy.rules().end() ? "default" : decides->name);
    room &= out->used() < out->limit();
  }
  reply->set_allowed(room);
  reply->set_rule("");
  reply->set_reason(room ? "Every limit has room." : "A limit is used up.");
}

}  // namespace

AdminService::Unary* AdminService::BadRequest(Context* context, const std::string& why) {
  Unary* reactor = context->DefaultReactor();
  reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, why});
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetPolicy(Context* context, const pb::GetPolicyRequest*,
                                                  pb::PolicyReply* reply) {
  return Snapshot(context, [this, reply]() -> std::function<void()> {
    return [rules = shell_.core().policy().rules(), reply] {
      for (const core::Rule& rule : rules) ToProto(rule, reply->add_rules());
    };
  });
}

grpc::ServerUnaryReactor* AdminService::CheckPolicy(Context* context, const pb::CheckPolicyRequest* request,
                                                    pb::CheckPolicyReply* reply) {
  const std::string& action = request->action();
  if (action != "listen" && action != "bind" && action != "connect" && action != "limits") {
    return BadRequest(context, "action is \"" + ops::Printable(action, 64) +
                                   "\"; it must be \"listen\", \"bind\", \"connect\" or \"limits\"");
  }
  const Address address = FromProto(request->address());
  if (action != "limits" && !address.well_formed()) {
    return BadRequest(context, "action \"" + action + "\" needs an IPv4 or IPv6 address with a port");
  }
  std::optional<std::uint64_t> session;
  if (!request->session().empty()) {
    session = ParseId('s', request->session());
    if (!session) {
      return BadRequest(context, "\"" + ops::Printable(request->session(), 64) +
                                     "\" is no id of a session; expected one like s-1f");
    }
  }
  core::Identity given;
  given.uid = request->uid();
  given.gid = request->gid();
  given.cgroup = ops::Printable(request->cgroup(), 4096);
  given.pod = {ops::Printable(request->pod_namespace(), 253), ops::Printable(request->pod(), 253),
               ops::Printable(request->service_account(), 253)};
  Unary* reactor = context->DefaultReactor();
  loop_.Post([this, reactor, reply, action, address, session, given = std::move(given)] {
    const core::Broker& core = shell_.core();
    std::optional<core::Identity> who = session ? core.OwnerOf(core::SessionId{*session}) : given;
    Status status;
    if (!who) {
      status = {StatusCode::kInvalidHandle, "there is no session \"" + IdText('s', *session) + "\""};
    } else if (action == "limits") {
      ExplainLimits(core.policy(), *who, core.UsageOf(core::UserOf(*who)), reply);
    } else {
      const auto verb = action == "listen" ? core::PolicyVerb::kListen
                        : action == "bind" ? core::PolicyVerb::kBind
                                           : core::PolicyVerb::kConnect;
      Explain(core.policy(), verb, *who, address, reply);
    }
    service::ToProto(status, reply->mutable_status());
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetConfig(Context* context, const pb::GetConfigRequest*,
                                                  pb::ConfigReply* reply) {
  Unary* reactor = context->DefaultReactor();
  worker_.Post([this, reactor, reply] {
    reply->set_file(options_.config_file);
    for (const Setting& setting : options_.configuration.settings()) {
      pb::ConfigSetting* out = reply->add_settings();
      out->set_name(setting.name);
      out->set_value(ops::Printable(setting.value, 65536));
      out->set_origin(Name(setting.origin));
    }
    if (options_.configuration.load != nullptr) {
      const Result<Config> file = options_.configuration.load();
      // An unreadable file cannot require a restart; CheckConfig reports its errors.
      if (file.ok()) reply->set_needs_restart(options_.configuration.needs_restart(file.value()));
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::CheckConfig(Context* context, const pb::CheckConfigRequest* request,
                                                    pb::CheckConfigReply* reply) {
  Unary* reactor = context->DefaultReactor();
  const std::string name = request->file().empty() ? "configuration" : ops::Printable(request->file(), 4096);
  worker_.Post([this, reactor, reply, name, text = request->text()] {
    const Result<Config> config = options_.configuration.parse(text, name);
    service::ToProto(config.ok() ? Status::Ok() : config.status(), reply->mutable_status());
    if (config.ok()) reply->set_needs_restart(options_.configuration.needs_restart(config.value()));
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::Diagnose(Context* context, const pb::DiagnoseRequest*,
                                                 pb::DiagnoseReply* reply) {
  return Snapshot(context, [this, reply]() -> std::function<void()> {
    auto facts = std::make_shared<HealthFacts>();
    std::vector<Address> ports;
    const core::Broker& core = shell_.core();
    facts->version = "ndbrokerd " + options_.version;
    facts->grpc = options_.grpc;
    facts->fds_wanted = options_.descriptors_wanted;
    facts->longest_stall = shell_.LongestStall();
    facts->journal = shell_.journal_state();
    facts->journal_file.path = options_.directory + "/" + state::kJournalName;
    if (options_.history != nullptr) {
      facts->history = options_.history->state();
      facts->history_file.path = options_.history->file();
    }
    for (const core::AdapterRow& row : core.Adapters()) {
      const AdapterInfo& info = row.description.info;
      facts->adapters.push_back({info.name, info.provider, row.enabled, info.addresses.size(),
                                 row.description.problem.message(), row.description.pins_memory});
      if (row.description.tcp_port == 0) continue;
      for (const Address& address : info.addresses)
        ports.push_back(address.WithPort(row.description.tcp_port));
    }
    // Uses the limits of the first session of each user; rules by cgroup can give other sessions different
    // limits.
    std::vector<std::uint32_t> seen;
    for (const core::SessionRow& row : core.Sessions()) {
      if (std::ranges::find(seen, core::UserOf(row.owner)) != seen.end()) continue;
      seen.push_back(core::UserOf(row.owner));
      const core::Limits limits = core.policy().LimitsOf(row.owner);
      const core::Quota::Usage usage = core.UsageOf(core::UserOf(row.owner));
      for (const Resource resource : kAllResources) {
        const std::uint32_t used = usage[static_cast<std::size_t>(resource)];
        const std::uint32_t limit = core::LimitOf(limits, resource).value_or(kNoLimit);
        if (used != 0 && used >= limit - limit / 10) {
          facts->near_quota.push_back({core::UserOf(row.owner), core::Name(resource), used, limit});
        }
      }
    }
    constexpr std::size_t kMostPorts = 8;  // Each port can take half a second.
    if (ports.size() > kMostPorts) ports.resize(kMostPorts);
    return [this, facts, ports = std::move(ports), reply] {
      GatherHealth(options_.directory, ports, facts.get());
      for (const Finding& finding : Judge(*facts)) {
        pb::Diagnosis* out = reply->add_items();
        out->set_name(finding.name);
        out->set_verdict(Name(finding.verdict));
        out->set_finding(finding.finding);
        out->set_remedy(finding.remedy);
      }
    };
  });
}

grpc::ServerUnaryReactor* AdminService::GetLog(Context* context, const pb::LogRequest* request,
                                               pb::LogReply* reply) {
  Unary* reactor = context->DefaultReactor();
  const std::size_t most = request->lines() == 0 ? ops::kRememberedLines : request->lines();
  for (std::string& line : ops::NewestLogLines(std::min(most, ops::kRememberedLines))) {
    reply->add_lines(std::move(line));
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace nd::service
