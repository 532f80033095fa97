// SPDX-License-Identifier: Apache-2.0
// ndctl endpoint: shared endpoints, one local port for many destinations.
#include "cli/commands.h"
#include "cli/fetch_rows.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfEndpoint(const v1::EndpointRow& endpoint) {
  Value row = Value::MakeObject();
  row.Set("id", endpoint.id())
      .Set("state", endpoint.state())
      .Set("local", AddressText(endpoint.local()))
      .Set("adapter", endpoint.adapter())
      .Set("owner", OwnerValue(endpoint.owner()))
      .Set("connections", endpoint.connections());
  return row;
}

Failure FetchEndpoints(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::EndpointList>(context, &AdminClient::ListEndpoints, id, RowOfEndpoint, rows);
}

}  // namespace

void AddEndpoint(Command root, Context& context) {
  Noun noun;
  noun.name = "endpoint";
  noun.aliases = "endpoints";
  noun.about = "Shared endpoints: list, show";
  noun.id_name = "id that the list shows";
  noun.message = "EndpointRow";
  noun.shape = {"Endpoint",
                "id",
                {{"ID", "id"},
                 {"STATE", "state", Show::kState},
                 {"LOCAL", "local"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber},
                 {"CONNECTIONS", "connections", Show::kNumber},
                 {"ADAPTER", "adapter", Show::kText, true},
                 {"UID", "owner.uid", Show::kNumber, true},
                 {"UNIT", "owner.unit", Show::kText, true},
                 {"CONTAINER", "owner.container", Show::kText, true},
                 {"COMMAND", "owner.command", Show::kText, true}},
                RowOfEndpoint({})};
  noun.fetch = FetchEndpoints;
  AddNoun(root, context, noun);
}

}  // namespace nd::cli
