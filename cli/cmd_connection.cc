// SPDX-License-Identifier: Apache-2.0
// ndctl connection: every connector, from unbound to dead, with its traffic.
#include <memory>

#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

namespace v1 = ndbroker::v1;

Value ToRow(const v1::ConnectionRow& connection) {
  Value limits = Value::MakeObject();
  limits.Set("inbound", connection.limits().inbound()).Set("outbound", connection.limits().outbound());
  Value row = Value::MakeObject();
  row.Set("id", connection.id())
      .Set("state", connection.state())
      .Set("role", connection.passive() ? "passive" : "active")
      .Set("transport", connection.transport())
      .Set("local", AddressText(connection.local()))
      .Set("peer", AddressText(connection.peer()))
      .Set("adapter", connection.adapter())
      .Set("owner", OwnerValue(connection.owner()))
      .Set("read_limits", std::move(limits))
      .Set("tx_bytes", connection.tx_bytes())
      .Set("rx_bytes", connection.rx_bytes())
      .Set("tx_messages", connection.tx_messages())
      .Set("rx_messages", connection.rx_messages())
      .Set("errors", connection.errors())
      .Set("through", connection.through());
  SetAge(connection.age_seconds(), &row);
  return row;
}

Failure Fetch(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::ConnectionList>(context, &AdminClient::Stub::ListConnections, id, ToRow, rows);
}

Failure Kill(Context& context, const std::string& id) {
  v1::KillRequest request;
  request.set_id(id);
  v1::Outcome outcome;
  if (Failure failure = context.admin().Call(&AdminClient::Stub::KillConnection, request, &outcome))
    return failure;
  return context.Done(outcome, "cannot end connection '" + id + "'", "connection " + id + " ended");
}

}  // namespace

void AddConnection(CLI::App& root, Context& context) {
  Noun noun;
  noun.name = "connection";
  noun.aliases = "conn connections";
  noun.about = "Connections: list, show, kill";
  noun.id_name = "id that the list shows";
  noun.shape = {"Connection",
                "id",
                {{"ID", "id"},
                 {"STATE", "state", Show::kState},
                 {"TRANSPORT", "transport"},
                 {"LOCAL", "local"},
                 {"PEER", "peer"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber},
                 {"AGE", "age_seconds", Show::kSeconds},
                 {"TX", "tx_bytes", Show::kBytes},
                 {"RX", "rx_bytes", Show::kBytes},
                 {"ERR", "errors", Show::kNumber},
                 {"ROLE", "role", Show::kText, true},
                 {"ADAPTER", "adapter", Show::kText, true},
                 {"UID", "owner.uid", Show::kNumber, true},
                 {"COMMAND", "owner.command", Show::kText, true},
                 {"TX-MSGS", "tx_messages", Show::kNumber, true},
                 {"RX-MSGS", "rx_messages", Show::kNumber, true},
                 {"READS-IN", "read_limits.inbound", Show::kNumber, true},
                 {"READS-OUT", "read_limits.outbound", Show::kNumber, true},
                 {"THROUGH", "through", Show::kText, true}},
                ToRow({})};
  noun.fetch = Fetch;
  CLI::App* app = AddNoun(root, context, noun);
  CLI::App* kill =
      AddVerb(*app, "kill", "End it at once; both applications are told the administrator did it");
  const auto id = std::make_shared<std::string>();
  kill->add_option("ID", *id, "id that the list shows")->required();
  kill->callback([&context, id] { context.run = [&context, id] { return Kill(context, *id); }; });
}

}  // namespace nd::cli
