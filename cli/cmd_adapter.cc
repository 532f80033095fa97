// SPDX-License-Identifier: Apache-2.0
// ndctl adapter: the devices that the broker works with.
#include "cli/commands.h"
#include "cli/fetch_rows.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfAdapter(const v1::AdapterRow& adapter) {
  Value row = AdapterInfoValue(adapter.info());
  row.Set("state", adapter.state())
      .Set("mode", adapter.mode())
      .Set("tcp_port", adapter.tcp_port())
      .Set("connections", adapter.connections())
      .Set("listeners", adapter.listeners())
      .Set("ephemeral_used", adapter.ephemeral_used())
      .Set("problem", adapter.problem());
  return row;
}

Failure FetchAdapters(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::AdapterList>(context, &AdminClient::ListAdapters, id, RowOfAdapter, rows);
}

Failure SetState(Context& context, const std::string& name, bool enabled) {
  v1::SetAdapterRequest request;
  request.set_name(name);
  request.set_enabled(enabled);
  v1::Outcome outcome;
  if (Failure failure = context.admin().SetAdapter(request, &outcome)) return failure;
  const std::string word = enabled ? "enable" : "disable";
  return context.Done(outcome, "cannot " + word + " adapter '" + name + "'",
                      "adapter " + name + " " + word + "d");
}

std::string DestroyedWithAdapter(const Value& row) {
  return "disable adapter " + row.Find("name")->Text() + ", which ends its " +
         row.Find("connections")->Text() + " connectors and " + row.Find("listeners")->Text() + " listeners";
}

}  // namespace

void AddAdapter(Command root, Context& context) {
  Noun noun;
  noun.name = "adapter";
  noun.aliases = "adapters";
  noun.about = "Devices: list, show, enable, disable";
  noun.id_name = "name of the adapter";
  noun.message = "AdapterRow";
  noun.shape = {"Adapter",
                "name",
                {{"NAME", "name"},
                 {"PROVIDER", "provider"},
                 {"STATE", "state", Show::kState},
                 {"MODE", "mode"},
                 {"ADDRESSES", "addresses"},
                 {"LISTENERS", "listeners", Show::kNumber},
                 {"CONNECTIONS", "connections", Show::kNumber},
                 {"PROBLEM", "problem"},
                 {"TECHNOLOGY", "technology", Show::kText, true},
                 {"TCP-PORT", "tcp_port", Show::kNumber, true},
                 {"EPHEMERAL", "ephemeral_used", Show::kNumber, true},
                 {"READS-IN", "limits.max_inbound_read_limit", Show::kNumber, true},
                 {"READS-OUT", "limits.max_outbound_read_limit", Show::kNumber, true},
                 {"CALLER-DATA", "limits.max_caller_data", Show::kNumber, true}},
                RowOfAdapter({})};
  noun.fetch = FetchAdapters;
  noun.renamed = {{"limits", "info"}};
  for (const char* field :
       {"name", "provider", "technology", "adapter_id", "vendor_id", "device_id", "flags", "addresses"}) {
    noun.renamed.emplace_back(field, std::string("info.") + field);
  }
  Command app = AddNoun(root, context, noun);
  AddNounVerb(app, context, noun,
              {"enable", "Let applications use it again",
               [](Context& c, const std::string& name) { return SetState(c, name, true); }});
  AddNounVerb(
      app, context, noun,
      {"disable", "End its connections and refuse new ones until it is enabled",
       [](Context& c, const std::string& name) { return SetState(c, name, false); }, DestroyedWithAdapter});
}

}  // namespace nd::cli
