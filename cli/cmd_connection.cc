// SPDX-License-Identifier: Apache-2.0
// ndctl connection: every connector, from unbound to dead, with its traffic.
#include "cli/commands.h"
#include "cli/fetch_rows.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfConnection(const v1::ConnectionRow& connection) {
  Value limits = Value::MakeObject();
  limits.Set("inbound", connection.limits().inbound()).Set("outbound", connection.limits().outbound());
  Value row = Value::MakeObject(32);  // There may be tens of thousands.
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
      .Set("through", connection.through())
      .Set("reads_in_flight", connection.reads_in_flight())
      .Set("reads_in_flight_max", connection.reads_in_flight_max())
      .Set("wire_local", AddressText(connection.wire_local()))
      .Set("wire_peer", AddressText(connection.wire_peer()))
      .Set("traffic", TrafficValue(connection.traffic()))
      .Set("phases", PhasesValue(connection.phases()));
  SetAge(connection.age_seconds(), &row);
  return row;
}

Failure FetchConnections(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::ConnectionList>(context, &AdminClient::ListConnections, id, RowOfConnection, rows);
}

Failure Kill(Context& context, const std::string& id) {
  v1::KillRequest request;
  request.set_id(id);
  v1::Outcome outcome;
  if (Failure failure = context.admin().KillConnection(request, &outcome)) return failure;
  return context.Done(outcome, "cannot end connection '" + id + "'", "connection " + id + " ended");
}

std::string DestroyedWithConnection(const Value& row) {
  return "end connection " + row.Find("id")->Text() + " of " + OwnerText(row) + ", " +
         row.Find("local")->Text() + " to " + row.Find("peer")->Text();
}

}  // namespace

void AddConnection(Command root, Context& context) {
  Noun noun;
  noun.name = "connection";
  noun.aliases = "conn connections";
  noun.about = "Connections: list, show, kill";
  noun.id_name = "id that the list shows";
  noun.message = "ConnectionRow";
  noun.shape = {"Connection",
                "id",
                {{"ID", "id"},
                 {"STATE", "state", Show::kState},
                 {"LOCAL", "local"},
                 {"PEER", "peer"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber, true},
                 {"VIA", "transport", Show::kText, true},
                 {"AGE", "age_seconds", Show::kSeconds, true},
                 {"TX", "tx_bytes", Show::kBytes, false, When::kOnce},
                 {"RX", "rx_bytes", Show::kBytes, false, When::kOnce},
                 {"TX/s", "tx_bytes_per_second", Show::kBytes, false, When::kLive},
                 {"RX/s", "rx_bytes_per_second", Show::kBytes, false, When::kLive},
                 {"ERR", "errors", Show::kNumber},
                 {"ROLE", "role", Show::kText, true},
                 {"ADAPTER", "adapter", Show::kText, true},
                 {"UID", "owner.uid", Show::kNumber, true},
                 {"UNIT", "owner.unit", Show::kText, true},
                 {"CONTAINER", "owner.container", Show::kText, true},
                 {"TX-MSGS", "tx_messages", Show::kNumber, true},
                 {"RX-MSGS", "rx_messages", Show::kNumber, true},
                 {"STALLS", "traffic.stalls", Show::kNumber, true},
                 {"READS", "reads_in_flight", Show::kNumber, true},
                 {"READS-MAX", "reads_in_flight_max", Show::kNumber, true},
                 {"READS-IN", "read_limits.inbound", Show::kNumber, true},
                 {"READS-OUT", "read_limits.outbound", Show::kNumber, true},
                 {"WIRE-LOCAL", "wire_local", Show::kText, true},
                 {"WIRE-PEER", "wire_peer", Show::kText, true},
                 {"THROUGH", "through", Show::kText, true},
                 {"COMMAND", "owner.command", Show::kText, true}},
                RowOfConnection({})};
  noun.fetch = FetchConnections;
  noun.rates = {{"tx_bytes", "tx_bytes_per_second"},
                {"rx_bytes", "rx_bytes_per_second"},
                {"tx_messages", "tx_messages_per_second"},
                {"rx_messages", "rx_messages_per_second"}};
  noun.renamed = {{"role", "passive"}, {"read_limits", "limits"}, {"since", "age_seconds"}};
  Command app = AddNoun(root, context, noun);
  AddNounVerb(app, context, noun,
              {"kill", "End it at once; both applications are told the administrator did it", Kill,
               DestroyedWithConnection});
}

}  // namespace nd::cli
