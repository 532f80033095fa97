// SPDX-License-Identifier: Apache-2.0
// ndctl status: the health of the broker at a glance.
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/rows.h"
#include "cli/watch.h"

namespace nd::cli {
namespace {

Value Sorted(const google::protobuf::Map<std::string, google::protobuf::uint64>& map) {
  Value::Array names;
  for (const auto& [name, count] : map) names.emplace_back(name);
  std::sort(names.begin(), names.end(),
            [](const Value& a, const Value& b) { return Value::Compare(a, b) < 0; });
  Value out = Value::MakeObject();
  for (const Value& name : names) out.Set(name.Text(), static_cast<std::uint64_t>(map.at(name.Text())));
  return out;
}

Value ToRow(const v1::BrokerStatus& status, const std::string& directory) {
  const v1::Counters& counted = status.counters();
  Value counters = Value::MakeObject();
  counters.Set("connect", static_cast<std::uint64_t>(counted.connect()))
      .Set("accept", static_cast<std::uint64_t>(counted.accept()))
      .Set("connect_failure", static_cast<std::uint64_t>(counted.connect_failure()))
      .Set("connection_error", static_cast<std::uint64_t>(counted.connection_error()))
      .Set("active_connection", static_cast<std::uint64_t>(counted.active_connection()))
      .Set("failures", Sorted(counted.failures()))
      .Set("refusals", Sorted(counted.refusals()));
  Value adapters = Value::MakeArray();
  for (const auto& info : status.adapters()) {
    Value adapter = Value::MakeObject();
    Value addresses = Value::MakeArray();
    for (const auto& address : info.addresses()) addresses.array().emplace_back(IpText(address));
    adapter.Set("name", info.name()).Set("provider", info.provider()).Set("addresses", std::move(addresses));
    adapters.array().push_back(std::move(adapter));
  }
  Value row = Value::MakeObject();
  row.Set("state", status.draining() ? "draining" : "running")
      .Set("version", status.version())
      .Set("pid", status.pid())
      .Set("directory", directory)
      .Set("config_file", status.config_file())
      .Set("boot_epoch", static_cast<std::uint64_t>(status.boot_epoch()))
      .Set("uptime_seconds", Rounded(status.uptime_seconds()))
      .Set("started", TimeAgo(status.uptime_seconds()))
      .Set("sessions", status.sessions())
      .Set("listeners", status.listeners())
      .Set("connections", status.connections())
      .Set("shared_endpoints", status.shared_endpoints())
      .Set("handshakes", status.handshakes())
      .Set("oldest_pending_seconds", Rounded(status.oldest_pending_seconds()))
      .Set("open_fds", status.open_fds())
      .Set("fd_limit", static_cast<std::uint64_t>(status.fd_limit()))
      .Set("resident_bytes", static_cast<std::uint64_t>(status.resident_bytes()))
      .Set("counters", std::move(counters))
      .Set("adapters", std::move(adapters));
  return row;
}

std::string Counts(const Value& map) {
  std::string out;
  for (const auto& [name, count] : map.object()) out += (out.empty() ? "" : ", ") + name + " " + count.Text();
  return out;
}

// For reading: the important values first, numbers with units.
Table Card(const v1::BrokerStatus& status, const Value& row) {
  Table table;
  table.headers = {{"", true}, {"", false}};
  const auto line = [&](const std::string& name, const std::string& text, const char* color = nullptr) {
    table.keys.push_back(name + std::to_string(table.keys.size()));
    table.rows.push_back({{name.empty() ? " " : name + ":"}, {text, color}});
  };
  const auto field = [&](const char* path) { return row.Find(path)->Text(); };
  const bool draining = status.draining();
  line("Broker",
       std::string(draining ? "draining, takes nothing new; up" : "running") + " for " +
           HumanSeconds(status.uptime_seconds()) + ", version " + field("version") + ", pid " + field("pid"),
       draining ? "33" : "32");
  line("Sockets", field("directory"));
  line("Config", status.config_file().empty() ? "built-in defaults" : status.config_file());
  for (int i = 0; i < status.adapters_size(); ++i) {
    const auto& info = status.adapters(i);
    std::string addresses;
    for (const auto& address : info.addresses()) addresses += " " + IpText(address);
    line(i == 0 ? "Adapters" : "", info.name() + " (" + info.provider() + ")" + addresses);
  }
  const auto count = [&](const char* path, const char* one) {
    const std::string number = field(path);
    return number + " " + one + (number == "1" ? "" : "s");
  };
  line("Applications", count("sessions", "session") + ", " + count("listeners", "listener") + ", " +
                           count("shared_endpoints", "shared endpoint"));
  line("Connections", count("connections", "connector") + ", " + field("counters.active_connection") +
                          " established, " + count("handshakes", "handshake") + " in progress");
  line("Since start", field("counters.connect") + " connected, " + field("counters.accept") + " accepted, " +
                          field("counters.connect_failure") + " failed, " +
                          field("counters.connection_error") + " broken");
  if (const std::string text = Counts(*row.Find("counters.failures")); !text.empty())
    line("Failures", text, "33");
  if (const std::string text = Counts(*row.Find("counters.refusals")); !text.empty())
    line("Refusals", text, "33");
  if (status.oldest_pending_seconds() > 0) {
    line("Waiting", "the oldest operation has waited " + HumanSeconds(status.oldest_pending_seconds()));
  }
  line("Resources", field("open_fds") + " of " + field("fd_limit") + " descriptors, " +
                        HumanBytes(static_cast<double>(status.resident_bytes())) + " resident");
  return table;
}

Failure PrintStatus(Context& context, const WatchOptions& watch) {
  const auto ask = [&](v1::BrokerStatus* status) {
    return context.admin().GetStatus(v1::GetStatusRequest(), status);
  };
  if (watch.on()) {
    return Watch(context, watch, [&](Snapshot* snapshot) -> Failure {
      v1::BrokerStatus status;
      if (Failure failure = ask(&status)) return failure;
      const Value row = ToRow(status, context.admin().directory());
      snapshot->table = Card(status, row);
      snapshot->headers = false;
      snapshot->document = Envelope("BrokerStatus");
      for (const auto& [key, value] : row.object()) snapshot->document.Set(key, value);
      return std::nullopt;
    });
  }
  v1::BrokerStatus status;
  if (Failure failure = ask(&status)) return failure;
  const Value row = ToRow(status, context.admin().directory());
  if (context.output.format == Format::kTable || context.output.format == Format::kWide) {
    return context.Write(Card(status, row).Format(false, context.output.color));
  }
  const Shape shape{
      "BrokerStatus", "directory", {{"STATE", "state", Show::kState}, {"VERSION", "version"}}, row};
  return context.WriteOne(shape, row);
}

}  // namespace

void AddStatus(Command root, Context& context) {
  Command app = root.Add("status", "Is the broker well, and what does it hold");
  const auto watch = std::make_shared<WatchOptions>();
  AddWatchOptions(app, watch.get());
  app.OnRun(context, [&context, watch] { return PrintStatus(context, *watch); });
}

}  // namespace nd::cli
