// SPDX-License-Identifier: Apache-2.0
// ndctl doctor: problems of this host and their remedies; works without a broker.

#include "base/os/self.h"
#include "cli/checkup.h"
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/noun.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {
namespace {

Value ToRow(const std::string& source, const Verdict& verdict) {
  Value row = Value::MakeObject();
  row.Set("verdict", verdict.verdict)
      .Set("name", verdict.name)
      .Set("source", source)
      .Set("finding", verdict.finding)
      .Set("remedy", verdict.remedy);
  return row;
}

void Add(const std::string& source, const Verdict& verdict, Checkup* checkup) {
  (verdict.verdict == "FAIL"   ? checkup->failed
   : verdict.verdict == "WARN" ? checkup->warned
                               : checkup->passed)++;
  checkup->rows.push_back(ToRow(source, verdict));
}

BrokerFacts AskBroker(Context& context) {
  BrokerFacts facts;
  v1::BrokerStatus status;
  if (Failure failure = context.admin().GetStatus(v1::GetStatusRequest(), &status)) {
    facts.problem = failure->message;
    facts.hint = failure->hint;
    return facts;
  }
  facts.answers = true;
  facts.version = status.version();
  facts.pid = status.pid();
  facts.uptime = status.uptime_seconds();
  facts.draining = status.draining();
  return facts;
}

// How much of each quota this user has left.
void AskQuotas(Context& context, Checkup* checkup) {
  v1::CheckPolicyRequest request;
  request.set_uid(os::UserNumber());
  request.set_gid(os::GroupNumber());
  request.set_action("limits");
  v1::CheckPolicyReply reply;
  if (context.admin().CheckPolicy(request, &reply)) return;
  std::string full;
  for (const auto& limit : reply.limits()) {
    if (limit.limit() != 0xffffffff && limit.used() >= limit.limit() - limit.limit() / 10) {
      full += (full.empty() ? "" : ", ") + std::to_string(limit.used()) + " of " +
              std::to_string(limit.limit()) + " " + limit.resource();
    }
  }
  const std::string who = "uid " + std::to_string(os::UserNumber());
  if (full.empty()) return Add("ndctl", {"quotas", "PASS", who + " is far from every quota", {}}, checkup);
  Add("ndctl",
      {"quotas", "WARN", who + " uses " + full, "raise the quota in [[rule]], or close what is not used"},
      checkup);
}

void AskDiagnosis(Context& context, Checkup* checkup) {
  v1::DiagnoseReply reply;
  if (Failure failure = context.admin().Diagnose(v1::DiagnoseRequest(), &reply)) {
    Add("ndctl", {"broker's own checks", "WARN", failure->message, failure->hint}, checkup);
    return;
  }
  for (const auto& item : reply.items()) {
    Add("broker", {item.name(), item.verdict(), item.finding(), item.remedy()}, checkup);
  }
}

std::string Text(const Checkup& checkup, const Output& output) {
  std::size_t width = 0;
  for (const Value& row : checkup.rows) width = std::max(width, DisplayWidth(row.Find("name")->Text()));
  std::string out;
  const auto field = [](const Value& row, const char* name) { return Printable(row.Find(name)->Text()); };
  for (const Value& row : checkup.rows) {
    const std::string verdict = field(row, "verdict");
    const char* sgr = output.color ? StateColor(verdict) : nullptr;
    out += (sgr != nullptr ? "\033[" + std::string(sgr) + "m" + verdict + "\033[0m" : verdict) + "  ";
    const std::string name = field(row, "name");
    out += name + std::string(width - std::min(width, DisplayWidth(name)), ' ') + "  " +
           field(row, "finding") + "\n";
    const std::string remedy = field(row, "remedy");
    if (!remedy.empty() && verdict != "PASS") out += "      -> " + remedy + "\n";
  }
  const auto count = [](std::size_t number, const char* what) { return std::to_string(number) + " " + what; };
  return out + count(checkup.passed, "passed, ") + count(checkup.warned, "warned, ") +
         count(checkup.failed, "failed\n");
}

Failure Run(Context& context) {
  if (Failure failure = CheckSelection(context, CheckupShape(), {})) return failure;
  const Checkup checkup = Examine(context);
  if (context.output.format == Format::kTable || context.output.format == Format::kWide) {
    if (Failure failure = context.Write(Text(checkup, context.output))) return failure;
  } else if (Failure failure = WriteRows(context, CheckupShape(), {}, checkup.rows)) {
    return failure;
  }
  if (checkup.failed == 0) return std::nullopt;
  return Error{Exit::kFailed, {}, {}, {}};  // The report has the message.
}

}  // namespace

Shape CheckupShape() {
  return {"Check",
          "name",
          {{"VERDICT", "verdict", Show::kState},
           {"CHECK", "name"},
           {"FINDING", "finding"},
           {"REMEDY", "remedy"},
           {"SOURCE", "source", Show::kText, true}},
          ToRow({}, {})};
}

Checkup Examine(Context& context) {
  Checkup checkup;
  const BrokerFacts broker = AskBroker(context);
  for (const Verdict& verdict : ExamineHost(context.admin().directory(), broker))
    Add("ndctl", verdict, &checkup);
  if (!broker.answers) return checkup;
  AskQuotas(context, &checkup);
  AskDiagnosis(context, &checkup);
  return checkup;
}

void AddDoctor(Command root, Context& context) {
  Command app =
      root.Add("doctor", "Check this host and its broker, with remedies; exit 1 when a check fails");
  app.OnRun(context, [&context] { return Run(context); });
}

}  // namespace nd::cli
