// SPDX-License-Identifier: Apache-2.0
// ndctl policy: the rules in force, and their decision about a request.

#include <fstream>
#include <memory>

#include "base/os/self.h"
#include "cli/commands.h"
#include "cli/identity.h"
#include "cli/nearest.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

constexpr std::uint32_t kNoLimit = 0xffffffff;

Value Ranges(bool present, const v1::AddressRanges& ranges) {
  if (!present) return {};
  Value list = Value::MakeArray();
  for (const std::string& item : ranges.items()) list.array().emplace_back(item);
  return list;
}

Value RowOfRule(const v1::PolicyRule& rule) {
  std::map<std::string, std::uint32_t> sorted(rule.limits().begin(), rule.limits().end());
  Value limits = Value::MakeObject();
  for (const auto& [resource, limit] : sorted) limits.Set(resource, limit);
  Value row = Value::MakeObject();
  row.Set("name", rule.name())
      .Set("uid", rule.has_uid() ? Value(rule.uid()) : Value())
      .Set("gid", rule.has_gid() ? Value(rule.gid()) : Value())
      .Set("cgroup", rule.has_cgroup() ? Value(rule.cgroup()) : Value())
      .Set("pod_namespace", rule.has_pod_namespace() ? Value(rule.pod_namespace()) : Value())
      .Set("pod", rule.has_pod() ? Value(rule.pod()) : Value())
      .Set("service_account", rule.has_service_account() ? Value(rule.service_account()) : Value())
      .Set("listen", Ranges(rule.has_listen(), rule.listen()))
      .Set("connect", Ranges(rule.has_connect(), rule.connect()))
      .Set("limits", std::move(limits));
  return row;
}

Shape RuleShape() {
  return {"PolicyRule",
          "name",
          {{"RULE", "name"},
           {"UID", "uid", Show::kNumber},
           {"GID", "gid", Show::kNumber},
           {"CGROUP", "cgroup"},
           {"POD-NAMESPACE", "pod_namespace", Show::kText, true},
           {"POD", "pod", Show::kText, true},
           {"SERVICE-ACCOUNT", "service_account", Show::kText, true},
           {"LISTEN", "listen", Show::kList},
           {"CONNECT", "connect", Show::kList},
           {"LIMITS", "limits"}},
          RowOfRule({})};
}

Failure ShowRules(Context& context) {
  if (Failure failure = CheckSelection(context, RuleShape(), {})) return failure;
  v1::PolicyReply reply;
  if (Failure failure = context.admin().GetPolicy(v1::GetPolicyRequest(), &reply)) {
    return failure;
  }
  Value::Array rows;
  for (const auto& rule : reply.rules()) rows.push_back(RowOfRule(rule));
  const bool table = context.output.format == Format::kTable || context.output.format == Format::kWide;
  if (rows.empty() && table)
    return context.Write("no rules: everybody may listen and connect, within the default limits\n");
  return WriteRows(context, RuleShape(), {}, std::move(rows));
}

struct Question {
  std::string action, address;
  std::string session, user, group, cgroup;
  std::string pod_namespace, pod, service_account;
  bool explain = false;
};

std::string OwnCgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

// The caller in question: the named session, the given identity, or the user of ndctl.
Failure SetCaller(const Question& question, v1::CheckPolicyRequest* request) {
  const bool identity = !question.user.empty() || !question.group.empty() || !question.cgroup.empty() ||
                        !question.pod_namespace.empty() || !question.pod.empty() ||
                        !question.service_account.empty();
  if (!question.session.empty()) {
    if (identity) {
      return Error{Exit::kUsage,
                   "--session names the caller; leave out --uid, --gid, --cgroup and the pod",
                   "give either the session or the identity",
                   {}};
    }
    request->set_session(question.session);
    return std::nullopt;
  }
  std::uint32_t uid = os::UserNumber();
  std::uint32_t gid = os::GroupNumber();
  if (!question.user.empty()) {
    if (Failure failure = ParseUser(question.user, &uid)) return failure;
  }
  if (!question.group.empty()) {
    if (Failure failure = ParseGroup(question.group, &gid)) return failure;
  }
  request->set_uid(uid);
  request->set_gid(gid);
  request->set_cgroup(identity ? question.cgroup : OwnCgroup());
  request->set_pod_namespace(question.pod_namespace);
  request->set_pod(question.pod);
  request->set_service_account(question.service_account);
  return std::nullopt;
}

Failure ToRequest(const Question& question, v1::CheckPolicyRequest* request) {
  static const std::vector<std::string> kActions = {"listen", "bind", "connect", "limits"};
  if (std::find(kActions.begin(), kActions.end(), question.action) == kActions.end()) {
    return Error{Exit::kUsage,
                 "the policy knows no action '" + question.action + "'",
                 Suggest(question.action, kActions),
                 {}};
  }
  request->set_action(question.action);
  if (question.action == "limits") {
    if (!question.address.empty()) {
      return Error{Exit::kUsage, "limits have no address", "ndctl policy check limits [--uid USER]", {}};
    }
  } else {
    if (question.address.empty()) {
      return Error{Exit::kUsage,
                   question.action + " needs the address that is wished for",
                   "ndctl policy check " + question.action + " 10.0.0.1:7000",
                   {}};
    }
    const bool any_port = question.action == "bind";
    if (Failure failure = ParseAddress(question.address, request->mutable_address(), any_port))
      return failure;
  }
  return SetCaller(question, request);
}

std::string CallerText(const v1::CheckPolicyRequest& request) {
  if (!request.session().empty()) return "session " + request.session();
  return "uid " + std::to_string(request.uid()) + " gid " + std::to_string(request.gid()) +
         (request.cgroup().empty() ? "" : " cgroup " + request.cgroup()) +
         (request.pod_namespace().empty() && request.pod().empty()
              ? ""
              : " pod " + request.pod_namespace() + "/" + request.pod()) +
         (request.service_account().empty() ? "" : " service account " + request.service_account());
}

Value Answer(const v1::CheckPolicyRequest& request, const v1::CheckPolicyReply& reply) {
  Value steps = Value::MakeArray();
  for (const auto& step : reply.steps()) {
    Value item = Value::MakeObject();
    item.Set("rule", step.rule()).Set("matched", step.matched()).Set("reason", step.reason());
    steps.array().push_back(std::move(item));
  }
  Value limits = Value::MakeArray();
  for (const auto& limit : reply.limits()) {
    Value item = Value::MakeObject();
    item.Set("resource", limit.resource())
        .Set("used", limit.used())
        .Set("limit", limit.limit() == kNoLimit ? Value() : Value(limit.limit()))
        .Set("rule", limit.rule());
    limits.array().push_back(std::move(item));
  }
  Value row = Value::MakeObject();
  row.Set("caller", CallerText(request))
      .Set("action", request.action())
      .Set("address", AddressText(request.address()))
      .Set("allowed", reply.allowed())
      .Set("rule", reply.rule())
      .Set("reason", reply.reason())
      .Set("steps", std::move(steps))
      .Set("limits", std::move(limits));
  return row;
}

std::string LimitsTable(const Value& answer, const Output& output) {
  const Shape shape{"PolicyLimit",
                    "resource",
                    {{"RESOURCE", "resource"},
                     {"USED", "used", Show::kNumber},
                     {"LIMIT", "limit", Show::kNumber},
                     {"RULE", "rule"}},
                    {}};
  Table table;
  const Failure none = ListTable(shape, answer.Find("limits")->array(), output, &table);
  return table.Format(output.headers, output.color);
}

std::string StepsTable(const Value& answer, const Output& output) {
  Table table;
  table.headers = {{"#", true}, {"RULE"}, {"MATCHES"}, {"BECAUSE"}};
  int number = 0;
  for (const Value& step : answer.Find("steps")->array()) {
    const bool matched = step.Find("matched")->Text() == "true";
    table.rows.push_back({{std::to_string(++number)},
                          {step.Find("rule")->Text()},
                          {matched ? "yes" : "no", matched ? "32" : nullptr},
                          {step.Find("reason")->Text()}});
  }
  return table.rows.empty() ? std::string() : table.Format(output.headers, output.color);
}

// One sentence that names the deciding rule.
std::string Reason(const v1::CheckPolicyRequest& request, const v1::CheckPolicyReply& reply) {
  const std::string what =
      request.action() + " " + AddressText(request.address()) + " by " + CallerText(request);
  const std::string reason = reply.reason().empty() ? what : reply.reason();
  return reason.find(reply.rule()) == std::string::npos ? reason + " (rule " + reply.rule() + ")" : reason;
}

Failure Check(Context& context, const Question& question) {
  v1::CheckPolicyRequest request;
  if (Failure failure = ToRequest(question, &request)) return failure;
  v1::CheckPolicyReply reply;
  if (Failure failure = context.admin().CheckPolicy(request, &reply)) return failure;
  if (Failure failure = FailureOf(StatusOf(reply.status()), "the policy cannot be asked")) return failure;
  const Value answer = Answer(request, reply);
  const Shape shape{
      "PolicyAnswer", "rule", {{"ALLOWED", "allowed"}, {"RULE", "rule"}, {"REASON", "reason"}}, answer};
  const bool limits = question.action == "limits";
  if (context.output.format == Format::kTable || context.output.format == Format::kWide) {
    std::string text = question.explain ? StepsTable(answer, context.output) : std::string();
    if (limits) {
      text += LimitsTable(answer, context.output);
    } else {
      Table verdict;
      verdict.headers = {{""}, {""}};
      const char* word = reply.allowed() ? "allowed" : "refused";
      verdict.rows.push_back({{word, StateColor(word)}, {Reason(request, reply)}});
      text += verdict.Format(false, context.output.color);
    }
    if (Failure failure = context.Write(text)) return failure;
  } else if (Failure failure = context.WriteOne(shape, answer)) {
    return failure;
  }
  if (limits || reply.allowed() || question.explain) return std::nullopt;
  return Error{Exit::kNotFound, {}, {}, {}};
}

void AddQuestion(Command app, Context& context, bool explain) {
  Command verb =
      explain ? app.Add("explain", "As check, with every rule that was asked and why it did not decide")
              : app.Add("check", "Ask the policy about one action: exit 0 allowed, 3 refused");
  const auto question = std::make_shared<Question>();
  question->explain = explain;
  verb.Add("ACTION", &question->action, "listen, bind, connect or limits").Required();
  verb.Add("ADDRESS", &question->address, "IP:PORT, for listen, bind and connect");
  verb.Add("--session", &question->session, "Ask for the application of this session");
  verb.Add("--uid", &question->user, "Ask for this user, by number or name (default: yourself)");
  verb.Add("--gid", &question->group, "Ask for this group, by number or name");
  verb.Add("--cgroup", &question->cgroup, "Ask for a process in this cgroup");
  verb.Add("--pod-namespace", &question->pod_namespace, "Ask for a pod of this namespace");
  verb.Add("--pod", &question->pod, "Ask for the pod of this name");
  verb.Add("--service-account", &question->service_account, "Ask for a pod with this service account");
  verb.OnRun(context, [&context, question] { return Check(context, *question); });
}

}  // namespace

void AddPolicy(Command root, Context& context) {
  Command app = root.Add("policy", "Rules for listening and connecting: show, check, explain");
  app.RequireCommand();
  Command show = app.Add("show", "The rules in force, in the order in which they are asked");
  show.Alias("list");
  show.OnRun(context, [&context] { return ShowRules(context); });
  AddQuestion(app, context, false);
  AddQuestion(app, context, true);
}

}  // namespace nd::cli
