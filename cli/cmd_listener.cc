// SPDX-License-Identifier: Apache-2.0
// ndctl listener: the listeners and their queues.
#include "cli/commands.h"
#include "cli/fetch_rows.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfListener(const v1::ListenerRow& listener) {
  Value row = Value::MakeObject();
  row.Set("id", listener.id())
      .Set("state", listener.state())
      .Set("local", AddressText(listener.local()))
      .Set("adapter", listener.adapter())
      .Set("owner", OwnerValue(listener.owner()))
      .Set("backlog_used", listener.backlog_used())
      .Set("backlog_limit", listener.backlog_limit())
      .Set("waiting_gets", listener.waiting_gets())
      .Set("accepted", listener.accepted())
      .Set("refused", listener.refused());
  SetAge(listener.age_seconds(), &row);
  return row;
}

Failure FetchListeners(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::ListenerList>(context, &AdminClient::ListListeners, id, RowOfListener, rows);
}

Failure Pause(Context& context, const std::string& id, bool pause) {
  v1::PauseListenerRequest request;
  request.set_id(id);
  request.set_pause(pause);
  v1::Outcome outcome;
  if (Failure failure = context.admin().PauseListener(request, &outcome)) return failure;
  const std::string word = pause ? "pause" : "resume";
  return context.Done(outcome, "cannot " + word + " listener '" + id + "'",
                      "listener " + id + " " + word + "d");
}

}  // namespace

void AddListener(Command root, Context& context) {
  Noun noun;
  noun.name = "listener";
  noun.aliases = "listeners";
  noun.about = "Listeners: list, show, pause, resume";
  noun.id_name = "id that the list shows";
  noun.message = "ListenerRow";
  noun.shape = {"Listener",
                "id",
                {{"ID", "id"},
                 {"STATE", "state", Show::kState},
                 {"LOCAL", "local"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber},
                 {"BACKLOG", "backlog_used", Show::kNumber},
                 {"LIMIT", "backlog_limit", Show::kNumber, true},
                 {"ACCEPTED", "accepted", Show::kNumber},
                 {"REFUSED", "refused", Show::kNumber},
                 {"AGE", "age_seconds", Show::kSeconds, true},
                 {"ADAPTER", "adapter", Show::kText, true},
                 {"UID", "owner.uid", Show::kNumber, true},
                 {"UNIT", "owner.unit", Show::kText, true},
                 {"CONTAINER", "owner.container", Show::kText, true},
                 {"COMMAND", "owner.command", Show::kText, true},
                 {"GETS", "waiting_gets", Show::kNumber, true},
                 {"ACCEPTED/s", "accepted_per_second", Show::kNumber, true, When::kLive},
                 {"REFUSED/s", "refused_per_second", Show::kNumber, true, When::kLive}},
                RowOfListener({})};
  noun.fetch = FetchListeners;
  noun.rates = {{"accepted", "accepted_per_second"}, {"refused", "refused_per_second"}};
  noun.renamed = {{"since", "age_seconds"}};
  Command app = AddNoun(root, context, noun);
  AddNounVerb(app, context, noun,
              {"pause", "Refuse new requests as if there were no listener",
               [](Context& c, const std::string& id) { return Pause(c, id, true); }});
  AddNounVerb(app, context, noun,
              {"resume", "Take new requests again",
               [](Context& c, const std::string& id) { return Pause(c, id, false); }});
}

}  // namespace nd::cli
