// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_windows.h"

namespace nd::cli {
namespace {

Verdict JudgeDirectory(const WindowsFacts& facts) {
  const std::string& path = facts.directory;
  if (!facts.directory_exists) {
    return {
        "directory", "FAIL", path + " does not exist",
        "start the broker (ndbrokerd --service start), or name its directory with --address or NDBROKER_DIR"};
  }
  if (!facts.access_known) {
    return {"directory", "WARN", "the access list of " + path + " cannot be read",
            "run ndctl as an administrator, who may read it"};
  }
  if (!facts.ours || facts.others_write) {
    return {"directory", "FAIL",
            facts.ours ? path + " can be written by others, who could change the state of the broker"
                       : path + " belongs to another user, who can change its access list",
            "stop the broker, remove the directory, and start the broker, which makes it anew"};
  }
  if (facts.others_read) {
    return {"directory", "WARN", path + " can be read by others: it has the configuration and the history",
            "take the rights of others away: icacls \"" + path + "\" /inheritance:r"};
  }
  return {"directory", "PASS", path + " is for its owner, administrators and the system", {}};
}

Verdict JudgeLane(const WindowsFacts& facts) {
  switch (facts.lane.state) {
    case SocketState::kAnswers:
      return {"sockets", "PASS", "the pipe of lane.sock accepts applications of this user", {}};
    case SocketState::kForbidden:
      return {"sockets", "FAIL", "this user may not use the pipe of " + facts.lane.path,
              "client-socket-mode of [broker] in the configuration says who may; 0666 admits everybody"};
    case SocketState::kSilent:
      return {"sockets", "FAIL", "the broker does not accept at " + facts.lane.path,
              "look for the reason in ndbrokerd.log in the directory of the broker"};
    default:
      return {"sockets", "FAIL", "nobody serves " + facts.lane.path,
              "start the broker: ndbrokerd --service start"};
  }
}

Verdict JudgeService(const WindowsFacts& facts, const BrokerFacts& broker) {
  const std::string by_hand = broker.answers ? "; this broker was started by hand" : "";
  switch (facts.service) {
    case ServiceState::kUnknown:
      return {"service", "WARN", "the service control manager does not say whether ndbrokerd is registered",
              "run ndctl as an administrator"};
    case ServiceState::kAbsent:
      return {"service", "WARN", "the service ndbrokerd is not registered" + by_hand,
              "ndbrokerd --service install, or the installer, registers it"};
    case ServiceState::kStopped:
      return {"service", broker.answers ? "WARN" : "FAIL", "the service ndbrokerd does not run" + by_hand,
              "ndbrokerd --service start; the reason why it ended is in the event log"};
    case ServiceState::kRunning:
      break;
  }
  if (broker.answers && broker.pid != facts.service_pid) {
    return {"service", "WARN",
            "the service ndbrokerd runs (pid " + std::to_string(facts.service_pid) +
                "), and another broker answers",
            "without --address and NDBROKER_DIR the broker of the service answers"};
  }
  if (!facts.service_automatic) {
    return {"service", "WARN", "the service ndbrokerd runs, and does not start with the system",
            "sc config ndbrokerd start= delayed-auto"};
  }
  return {"service", "PASS", "the service ndbrokerd runs and starts with the system", {}};
}

Verdict JudgeEvents(const WindowsFacts& facts) {
  if (facts.event_source) return {"event log", "PASS", "ndbrokerd is registered as a source of events", {}};
  if (facts.service != ServiceState::kRunning) {
    return {"event log", "PASS", "ndbrokerd is no source of events, which only a service needs", {}};
  }
  return {"event log", "WARN",
          "ndbrokerd is no source of events, so the event log shows its messages without their text",
          "ndbrokerd --service configure registers it"};
}

}  // namespace

std::vector<Verdict> JudgeWindows(const WindowsFacts& facts, const BrokerFacts& broker) {
  std::vector<std::uint32_t> pids;
  if (facts.service_pid != 0) pids.push_back(facts.service_pid);
  return {JudgeDirectory(facts), JudgeBroker(pids, broker), JudgeLane(facts), JudgeService(facts, broker),
          JudgeEvents(facts)};
}

}  // namespace nd::cli
