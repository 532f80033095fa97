// SPDX-License-Identifier: Apache-2.0
// ndctl adapter: the devices that the broker works with.
#include <memory>

#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

namespace v1 = ndbroker::v1;

Value ToRow(const v1::AdapterRow& adapter) {
  Value row = AdapterInfoValue(adapter.info());
  row.Set("state", adapter.state())
      .Set("mode", adapter.mode())
      .Set("tcp_port", adapter.tcp_port())
      .Set("connections", adapter.connections())
      .Set("listeners", adapter.listeners())
      .Set("ephemeral_used", adapter.ephemeral_used());
  return row;
}

Failure Fetch(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::AdapterList>(context, &AdminClient::Stub::ListAdapters, id, ToRow, rows);
}

Failure SetState(Context& context, const std::string& name, bool enabled) {
  v1::SetAdapterRequest request;
  request.set_name(name);
  request.set_enabled(enabled);
  v1::Outcome outcome;
  if (Failure failure = context.admin().Call(&AdminClient::Stub::SetAdapter, request, &outcome))
    return failure;
  const std::string word = enabled ? "enable" : "disable";
  return context.Done(outcome, "cannot " + word + " adapter '" + name + "'",
                      "adapter " + name + " " + word + "d");
}

}  // namespace

void AddAdapter(CLI::App& root, Context& context) {
  Noun noun;
  noun.name = "adapter";
  noun.aliases = "adapters";
  noun.about = "Devices: list, show, enable, disable";
  noun.id_name = "name of the adapter";
  noun.shape = {"Adapter",
                "name",
                {{"NAME", "name"},
                 {"PROVIDER", "provider"},
                 {"STATE", "state", Show::kState},
                 {"MODE", "mode"},
                 {"ADDRESSES", "addresses"},
                 {"LISTENERS", "listeners", Show::kNumber},
                 {"CONNECTIONS", "connections", Show::kNumber},
                 {"TECHNOLOGY", "technology", Show::kText, true},
                 {"TCP-PORT", "tcp_port", Show::kNumber, true},
                 {"EPHEMERAL", "ephemeral_used", Show::kNumber, true},
                 {"READS-IN", "limits.max_inbound_read_limit", Show::kNumber, true},
                 {"READS-OUT", "limits.max_outbound_read_limit", Show::kNumber, true},
                 {"CALLER-DATA", "limits.max_caller_data", Show::kNumber, true}},
                ToRow({})};
  noun.fetch = Fetch;
  CLI::App* app = AddNoun(root, context, noun);
  for (const bool enabled : {true, false}) {
    CLI::App* verb = AddVerb(*app, enabled ? "enable" : "disable",
                             enabled ? "Let applications use it again"
                                     : "End its connections and refuse new ones until it is enabled");
    const auto name = std::make_shared<std::string>();
    verb->add_option("NAME", *name, "name of the adapter")->required();
    verb->callback([&context, name, enabled] {
      context.run = [&context, name, enabled] { return SetState(context, *name, enabled); };
    });
  }
}

}  // namespace nd::cli
