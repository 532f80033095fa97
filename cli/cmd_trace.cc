// SPDX-License-Identifier: Apache-2.0
// ndctl trace: makes one real connection and shows where its time went: in ndctl, in this broker, at the
// peer.

#include <chrono>
#include <memory>
#include <thread>

#include "base/os/self.h"
#include "cli/commands.h"
#include "cli/history.h"
#include "cli/noun.h"
#include "cli/probe.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

struct Meaning {
  const char* side;
  const char* phase;
  const char* text;
};

constexpr Meaning kMeanings[] = {
    {"ndctl", "open", "session with the broker, adapter opened"},
    {"ndctl", "resolve", "which local address leads there"},
    {"ndctl", "create", "completion queue, queue pair, memory, connector"},
    {"ndctl", "bind", "local address and port taken"},
    {"ndctl", "connect", "Connect until the peer's application replied"},
    {"ndctl", "complete", "CompleteConnect until established"},
    {"ndctl", "disconnect", "goodbye, answered by the peer"},
    {"ndctl", "disconnect_unanswered", "goodbye, not answered in time"},
    {"broker", "queue", "waited for a place on the wire"},
    {"broker", "connect", "until the peer's host answered"},
    {"broker", "reply", "until the peer's application replied"},
    {"broker", "complete", "until ndctl completed"},
    {"broker", "establish", "until the queue pair was handed over"},
    {"peer", "deliver", "until the peer's application took the request"},
    {"peer", "accept", "until it accepted"},
    {"peer", "establish", "until the connection was up"},
};

std::string MeaningOf(const std::string& side, const std::string& phase) {
  for (const Meaning& meaning : kMeanings) {
    if (side == meaning.side && phase == meaning.phase) return meaning.text;
  }
  return {};
}

void AddStep(const std::string& side, const std::string& phase, double seconds, Value::Array* steps) {
  Value step = Value::MakeObject();
  step.Set("side", side).Set("phase", phase).Set("seconds", seconds).Set("meaning", MeaningOf(side, phase));
  steps->push_back(std::move(step));
}

void AddSteps(const std::string& side, const google::protobuf::RepeatedPtrField<v1::Phase>& phases,
              Value::Array* steps) {
  for (const auto& phase : phases) AddStep(side, phase.name(), phase.seconds(), steps);
}

// Asks this broker about the connection and, if it is on this host, its other end. Without permission, or
// with an older broker, the trace has the times of ndctl only.
std::string AskLive(Context& context, const Probe& probe, Value::Array* steps) {
  v1::ConnectionList list;
  if (context.admin().ListConnections(v1::ListRequest(), &list)) return {};
  std::string id;
  for (const auto& row : list.items()) {
    const bool mine = !row.passive() && row.owner().pid() == os::ProcessNumber();
    if (!mine) continue;
    id = row.id();
    AddSteps("broker", row.phases(), steps);
  }
  for (const auto& row : list.items()) {
    const bool other_end = row.passive() && AddressText(row.local()) == probe.remote().ToString() &&
                           AddressText(row.peer()) == probe.local().ToString();
    if (other_end) AddSteps("peer", row.phases(), steps);
  }
  return id;
}

// The broker keeps a record of an ended attempt, which may be written a moment later.
void AskPast(Context& context, const std::string& application, Value::Array* steps) {
  v1::HistoryRequest request;
  request.set_application(application);
  request.set_limit(20);
  for (int i = 0; i < 10; ++i) {
    v1::HistoryList list;
    if (context.admin().ListHistory(request, &list)) return;
    for (const auto& row : list.items()) {
      if (row.owner().pid() != os::ProcessNumber()) continue;
      AddSteps("broker", row.phases(), steps);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Shape StepShape() {
  return {"TraceStep",
          "phase",
          {{"SIDE", "side"}, {"PHASE", "phase"}, {"TIME", "seconds", Show::kShort}, {"WHAT", "meaning"}},
          {}};
}

Failure Report(Context& context, const Value& document, const Value::Array& steps) {
  if (context.output.format != Format::kTable && context.output.format != Format::kWide) {
    const Shape shape{"Trace",
                      "target",
                      {{"TARGET", "target"},
                       {"RESULT", "result"},
                       {"FAILED-PHASE", "failed_phase"},
                       {"TOTAL", "total_seconds", Show::kShort}},
                      document};
    return context.WriteOne(shape, document);
  }
  Table table;
  if (Failure failure = ListTable(StepShape(), steps, context.output, &table)) return failure;
  const std::string failed = document.Find("failed_phase")->Text();
  for (auto& row : table.rows) {
    if (row[0].text == "ndctl" && row[1].text == failed) row[1].color = row[2].color = "31";
  }
  const auto text = [&](const char* field) { return document.Find(field)->Text(); };
  std::string out = text("target") + (text("local").empty() ? "" : " from " + text("local")) +
                    (text("adapter").empty() ? "" : " on " + text("adapter")) + ": ";
  out += failed.empty() ? "connected in " + HumanShort(document.Find("total_seconds")->Number())
                        : "failed in phase " + failed;
  return context.Write(Printable(out) + "\n" + table.Format(context.output.headers, context.output.color));
}

// Without the port while there is none.
std::string LocalText(const Address& local) {
  if (local.family() == Address::Family::kUnspecified) return {};
  return local.port() == 0 ? local.IpToString() : local.ToString();
}

Failure Trace(Context& context, ProbeOptions options) {
  options.application = "ndctl-trace";
  Probe probe(context, options);
  Failure failure = probe.Open();
  if (failure && (failure->exit == Exit::kUsage || probe.phases().size() <= 1)) return failure;
  if (!failure) failure = probe.Connect();
  Value::Array broker_steps;
  std::string id = AskLive(context, probe, &broker_steps);
  if (failure && broker_steps.empty()) AskPast(context, options.application, &broker_steps);
  const std::string failed_phase = failure ? probe.phases().back().name : std::string();
  if (!failure) probe.Disconnect();
  Value::Array steps;
  double total = 0;
  for (const Probe::Phase& phase : probe.phases()) {
    AddStep("ndctl", phase.name, phase.seconds, &steps);
    if (!phase.name.starts_with("disconnect")) total += phase.seconds;
  }
  for (Value& step : broker_steps) steps.push_back(std::move(step));
  Value document = Value::MakeObject();
  document.Set("target", probe.remote().ToString())
      .Set("local", LocalText(probe.local()))
      .Set("adapter", probe.adapter())
      .Set("connection", id)
      .Set("result", failure ? "failed" : "connected")
      .Set("failed_phase", failed_phase)
      .Set("status", failure ? std::string(nd::Name(probe.status().code())) : "SUCCESS")
      .Set("total_seconds", total)
      .Set("steps", steps);
  if (Failure wrong = Report(context, document, steps)) return wrong;
  return failure;
}

}  // namespace

void AddTrace(Command root, Context& context) {
  Command app = root.Add("trace", "Connect once and show where the time went, or where and why it failed");
  const auto options = std::make_shared<ProbeOptions>();
  app.Add("ADDRESS", &options->address, "IP:PORT of a listener").Required();
  app.Add("--adapter", &options->adapter, "Adapter to use (default: the first)");
  app.OnRun(context, [&context, options] { return Trace(context, *options); });
}

}  // namespace nd::cli
