// SPDX-License-Identifier: Apache-2.0
// ndctl session: the applications that are connected to the broker.
#include "cli/commands.h"
#include "cli/fetch_rows.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfSession(const v1::SessionRow& session) {
  Value row = Value::MakeObject();
  row.Set("id", session.id())
      .Set("owner", OwnerValue(session.owner()))
      .Set("connectors", session.connectors())
      .Set("listeners", session.listeners())
      .Set("shared_endpoints", session.shared_endpoints())
      .Set("queue_pairs", session.queue_pairs())
      .Set("operations", session.operations())
      .Set("pending_operations", session.pending_operations());
  SetAge(session.age_seconds(), &row);
  return row;
}

Failure FetchSessions(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::SessionList>(context, &AdminClient::ListSessions, id, RowOfSession, rows);
}

Failure KillSession(Context& context, const std::string& id) {
  v1::KillRequest request;
  request.set_id(id);
  v1::Outcome outcome;
  if (Failure failure = context.admin().KillSession(request, &outcome)) return failure;
  return context.Done(outcome, "cannot end session '" + id + "'", "session " + id + " ended");
}

std::string DestroyedWithSession(const Value& row) {
  return "close session " + row.Find("id")->Text() + " of " + OwnerText(row) + " with " +
         row.Find("listeners")->Text() + " listeners and " + row.Find("connectors")->Text() + " connectors";
}

}  // namespace

void AddSession(Command root, Context& context) {
  Noun noun;
  noun.name = "session";
  noun.aliases = "sessions";
  noun.about = "Applications connected to the broker: list, show, kill";
  noun.id_name = "id that the list shows";
  noun.message = "SessionRow";
  noun.shape = {"Session",
                "id",
                {{"ID", "id"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber},
                 {"UID", "owner.uid", Show::kNumber},
                 {"LISTENERS", "listeners", Show::kNumber},
                 {"CONNECTORS", "connectors", Show::kNumber},
                 {"QPS", "queue_pairs", Show::kNumber},
                 {"PENDING", "pending_operations", Show::kNumber},
                 {"AGE", "age_seconds", Show::kSeconds},
                 {"UNIT", "owner.unit", Show::kText, true},
                 {"CONTAINER", "owner.container", Show::kText, true},
                 {"COMMAND", "owner.command", Show::kText, true},
                 {"ENDPOINTS", "shared_endpoints", Show::kNumber, true},
                 {"OPERATIONS", "operations", Show::kNumber, true},
                 {"OPS/s", "operations_per_second", Show::kNumber, false, When::kLive}},
                RowOfSession({})};
  noun.fetch = FetchSessions;
  noun.rates = {{"operations", "operations_per_second"}};
  noun.renamed = {{"since", "age_seconds"}};
  Command app = AddNoun(root, context, noun);
  AddNounVerb(
      app, context, noun,
      {"kill", "Close it with everything it holds; its peers are told", KillSession, DestroyedWithSession});
}

}  // namespace nd::cli
