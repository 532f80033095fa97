// SPDX-License-Identifier: Apache-2.0
// Lists the goals by name, so that a goal that no run reaches any more is noticed.
#include "tests/sim/coverage.h"

#include <cstdio>

#include "tests/sim/trace.h"

namespace nd::sim {
namespace {

std::string StateName(Model::State state) {
  return std::string(core::Name(static_cast<core::ConnectorState>(state)));
}

}  // namespace

void Coverage::Saw(const core::Event& event) {
  ++counts_[{"event", KindOf(event)}];
  if (const auto* op = std::get_if<core::ClientOp>(&event)) ++counts_[{"operation", KindOf(op->op)}];
}

void Coverage::Saw(const core::Action& action) {
  ++counts_[{"action", KindOf(action)}];
  if (const auto* c = std::get_if<core::Complete>(&action)) {
    ++counts_[{"status", std::string(Name(c->status.code()))}];
  } else if (const auto* r = std::get_if<core::CmReject>(&action)) {
    ++counts_[{"refusal", std::string(Name(r->detail))}];
  } else if (const auto* t = std::get_if<core::SendTransportCommand>(&action)) {
    constexpr const char* kWhat[] = {"?", "disconnect", "drop", "prepare"};
    ++counts_[{"command", kWhat[static_cast<int>(t->what)]}];
  } else if (const auto* a = std::get_if<core::SendAdapterEvent>(&action)) {
    constexpr const char* kWhat[] = {"?", "removed", "disabled", "enabled"};
    ++counts_[{"adapter", kWhat[static_cast<int>(a->what)]}];
  }
}

void Coverage::Moved(Model::State from, Model::State to) {
  ++counts_[{"transition", StateName(from) + "-" + StateName(to)}];
}

void Coverage::Add(const Coverage& other) {
  for (const auto& [what, count] : other.counts_) counts_[what] += count;
}

const std::vector<std::pair<std::string, std::string>>& Coverage::Wanted() {
  static const std::vector<std::pair<std::string, std::string>> wanted = [] {
    std::vector<std::pair<std::string, std::string>> all;
    const auto want = [&](const char* group, std::initializer_list<const char*> names) {
      for (const char* name : names) all.emplace_back(group, name);
    };
    for (const char* kind : EventKinds()) all.emplace_back("event", kind);
    for (std::size_t i = 0; i < session::kOperationCount; ++i) {
      all.emplace_back("operation", session::OperationName(i));
    }
    for (const char* kind : ActionKinds()) all.emplace_back("action", kind);
    want("command", {"disconnect", "drop", "prepare"});
    want("adapter", {"removed", "disabled", "enabled"});
    want("refusal",
         {"no listener", "backlog full", "paused", "peer rejected", "listener closed", "peer process died",
          "protocol", "policy", "quota", "local administrator", "adapter disabled", "stale connection"});
    want("status", {"SUCCESS",
                    "ACCESS_VIOLATION",
                    "INVALID_HANDLE",
                    "INVALID_PARAMETER",
                    "ACCESS_DENIED",
                    "INVALID_PARAMETER_MIX",
                    "SHARING_VIOLATION",
                    "INSUFFICIENT_RESOURCES",
                    "DEVICE_NOT_READY",
                    "IO_TIMEOUT",
                    "NOT_SUPPORTED",
                    "INVALID_PARAMETER_1",
                    "INVALID_PARAMETER_2",
                    "INVALID_PARAMETER_6",
                    "CANCELED",
                    "INVALID_ADDRESS",
                    "INVALID_DEVICE_STATE",
                    "INVALID_BUFFER_SIZE",
                    "TOO_MANY_ADDRESSES",
                    "ADDRESS_ALREADY_EXISTS",
                    "CONNECTION_DISCONNECTED",
                    "CONNECTION_REFUSED",
                    "ADDRESS_ALREADY_ASSOCIATED",
                    "ADDRESS_NOT_ASSOCIATED",
                    "BAD_NETWORK_NAME",
                    "CONNECTION_INVALID",
                    "CONNECTION_ACTIVE",
                    "NETWORK_UNREACHABLE",
                    "HOST_UNREACHABLE",
                    "CONNECTION_ABORTED",
                    "DEVICE_REMOVED"});
    want("transition",
         {"Unbound-Bound",        "Unbound-Waiting", "Unbound-Connecting",   "Unbound-Incoming",
          "Unbound-Connected",    "Unbound-Dead",    "Bound-Connecting",     "Bound-Unbound",
          "Bound-Dead",           "Waiting-Unbound", "Waiting-Incoming",     "Waiting-Dead",
          "Connecting-Replied",   "Connecting-Dead", "Replied-Completing",   "Replied-Dead",
          "Completing-Connected", "Completing-Dead", "Incoming-Accepting",   "Incoming-Dead",
          "Accepting-Connected",  "Accepting-Dead",  "Connected-PeerClosed", "Connected-Disconnecting",
          "Connected-Dead",       "PeerClosed-Dead", "Disconnecting-Dead",   "Dead-Bound"});
    want("harness", {"broker crash", "broker restart", "session refused", "hand-off failed", "journal stale",
                     "broker stop", "lease kept", "reattached", "duplicate", "clock jump",
                     "silent client ended", "child keeps stream", "allocation failed"});
    return all;
  }();
  return wanted;
}

std::vector<std::string> Coverage::Missing() const {
  std::vector<std::string> missing;
  for (const auto& what : Wanted()) {
    if (!counts_.contains(what)) missing.push_back(what.first + " " + what.second);
  }
  return missing;
}

std::string Coverage::Table() const {
  std::string text;
  const auto line = [&](const std::string& group, const std::string& what, std::uint64_t count,
                        const char* mark) {
    char row[128];
    std::snprintf(row, sizeof row, "%-11s %-28s %12llu%s\n", group.c_str(), what.c_str(),
                  static_cast<unsigned long long>(count), mark);
    text += row;
  };
  for (const auto& what : Wanted()) {
    const auto found = counts_.find(what);
    const std::uint64_t count = found == counts_.end() ? 0 : found->second;
    line(what.first, what.second, count, count == 0 ? "  <-- never reached" : "");
  }
  for (const auto& [what, count] : counts_) {
    bool wanted = false;
    for (const auto& w : Wanted()) wanted = wanted || w == what;
    if (!wanted) line(what.first, what.second, count, "  (not asked for)");
  }
  return text;
}

}  // namespace nd::sim
