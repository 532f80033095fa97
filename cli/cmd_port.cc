// SPDX-License-Identifier: Apache-2.0
// ndctl port: who holds which ND port, and why it is still held.
#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

namespace v1 = ndbroker::v1;

Value ToRow(const v1::PortRow& port) {
  Value row = Value::MakeObject();
  row.Set("local", AddressText(port.local()))
      .Set("port", port.local().port())
      .Set("type", port.kind())
      .Set("state", port.state())
      .Set("holder", port.holder())
      .Set("adapter", port.adapter())
      .Set("owner", OwnerValue(port.owner()))
      .Set("references", port.references());
  return row;
}

// A port has no id of its own; its address is one for people, so the choice is made here.
Failure Fetch(Context& context, const std::string&, Value::Array* rows) {
  return FetchRows<v1::PortList>(context, &AdminClient::Stub::ListPorts, {}, ToRow, rows);
}

}  // namespace

void AddPort(CLI::App& root, Context& context) {
  Noun noun;
  noun.name = "port";
  noun.aliases = "ports";
  noun.about = "ND ports in use: list, show";
  noun.id_name = "address with port, as the list shows it";
  noun.shape = {"Port",
                "local",
                {{"LOCAL", "local"},
                 {"TYPE", "type"},
                 {"STATE", "state", Show::kState},
                 {"HOLDER", "holder"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber},
                 {"REFS", "references", Show::kNumber},
                 {"ADAPTER", "adapter", Show::kText, true},
                 {"UID", "owner.uid", Show::kNumber, true},
                 {"COMMAND", "owner.command", Show::kText, true}},
                ToRow({})};
  noun.fetch = Fetch;
  AddNoun(root, context, noun);
}

}  // namespace nd::cli
