// SPDX-License-Identifier: Apache-2.0
// ndctl port: the holders of ND ports, the reason why a port is held, and reservations.
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/fetch_rows.h"
#include "cli/identity.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfPort(const v1::PortRow& port) {
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

// A port has no id; its address serves as one, so the row is selected here.
Failure FetchPorts(Context& context, const std::string&, Value::Array* rows) {
  return FetchRows<v1::PortList>(context, &AdminClient::ListPorts, {}, RowOfPort, rows);
}

struct Reservation {
  std::string address, user, comment;
};

Failure Reserve(Context& context, const Reservation& wanted) {
  v1::ReservePortRequest request;
  if (Failure failure = ParseAddress(wanted.address, request.mutable_local())) return failure;
  std::string whose = "nobody";
  if (!wanted.user.empty()) {
    std::uint32_t uid = 0;
    if (Failure failure = ParseUser(wanted.user, &uid)) return failure;
    request.set_uid(uid);
    whose = "uid " + std::to_string(uid) + " only";
  }
  request.set_comment(wanted.comment);
  v1::Outcome outcome;
  if (Failure failure = context.admin().ReservePort(request, &outcome)) return failure;
  return context.Done(
      outcome, "cannot reserve " + wanted.address,
      "port " + wanted.address + " is reserved for " + whose + " until it is released or the broker ends");
}

Failure Release(Context& context, const std::string& address) {
  v1::ReleasePortRequest request;
  if (Failure failure = ParseAddress(address, request.mutable_local())) return failure;
  v1::Outcome outcome;
  if (Failure failure = context.admin().ReleasePort(request, &outcome)) return failure;
  return context.Done(outcome, "cannot release " + address, "port " + address + " is released");
}

void AddReservations(Command app, Context& context) {
  Command reserve =
      app.Add("reserve", "Reserve an ND port, for one user or for none, until release or restart");
  const auto wanted = std::make_shared<Reservation>();
  reserve.Add("ADDRESS", &wanted->address, "IP:PORT").Required();
  reserve.Add("--uid", &wanted->user, "The only user, by number or name, that may take it");
  reserve.Add("--comment", &wanted->comment, "Why, for the list");
  reserve.OnRun(context, [&context, wanted] { return Reserve(context, *wanted); });
  Command release = app.Add("release", "End a reservation");
  const auto address = std::make_shared<std::string>();
  release.Add("ADDRESS", address.get(), "IP:PORT").Required();
  release.OnRun(context, [&context, address] { return Release(context, *address); });
}

}  // namespace

void AddPort(Command root, Context& context) {
  Noun noun;
  noun.name = "port";
  noun.aliases = "ports";
  noun.about = "ND ports in use: list, show, reserve, release";
  noun.id_name = "address with port, as the list shows it";
  noun.message = "PortRow";
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
                 {"UNIT", "owner.unit", Show::kText, true},
                 {"CONTAINER", "owner.container", Show::kText, true},
                 {"COMMAND", "owner.command", Show::kText, true}},
                RowOfPort({})};
  noun.fetch = FetchPorts;
  noun.renamed = {{"type", "kind"}};
  AddReservations(AddNoun(root, context, noun), context);
}

}  // namespace nd::cli
