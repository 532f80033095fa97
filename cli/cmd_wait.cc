// SPDX-License-Identifier: Apache-2.0
// ndctl wait: for scripts, waits until an object exists, is gone, or has a state.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/nearest.h"
#include "cli/noun.h"

namespace nd::cli {
namespace {

struct Awaited {
  std::string noun, id, condition;
  std::vector<std::string> filters;
};

const Noun* NounOf(const Context& context, const Awaited& wanted, Failure* failure) {
  if (const Noun* noun = context.FindNoun(wanted.noun)) return noun;
  std::vector<std::string> names;
  for (const auto& noun : context.nouns) names.push_back(noun->name);
  *failure = Error{Exit::kUsage,
                   "there is nothing called '" + wanted.noun + "' to wait for",
                   Suggest(wanted.noun, names),
                   {}};
  return nullptr;
}

// Returns the selected objects, in any state.
Failure Meant(Context& context, const Noun& noun, const Awaited& wanted, Value::Array* rows) {
  if (Failure failure = noun.fetch(context, wanted.id, rows)) return failure;
  if (!wanted.id.empty()) {
    std::erase_if(*rows, [&](const Value& row) {
      const Value* id = row.Find(noun.shape.id_path);
      return id == nullptr || id->Text() != wanted.id;
    });
  }
  return Select(noun.shape, {wanted.filters, {}}, rows);
}

Failure Wait(Context& context, const Awaited& wanted) {
  Failure failure;
  const Noun* noun = NounOf(context, wanted, &failure);
  if (noun == nullptr) return failure;
  const bool gone = wanted.condition == "gone";
  const bool exists = wanted.condition == "exists";
  Selection state{{wanted.condition}, {}};
  if (!gone && !exists) {
    if (wanted.condition.find_first_of("=<>") == std::string::npos) {
      return Error{Exit::kUsage,
                   "'" + wanted.condition + "' is not a condition",
                   "write --for FIELD=VALUE, --for exists or --for gone",
                   {}};
    }
    if (Failure wrong = CheckSelection(context, noun->shape, state)) return wrong;
  }
  if (Failure wrong = CheckSelection(context, noun->shape, {wanted.filters, {}})) return wrong;
  const auto start = std::chrono::steady_clock::now();
  auto pause = std::chrono::milliseconds(10);
  while (true) {
    Value::Array rows;
    if (Failure wrong = Meant(context, *noun, wanted, &rows)) return wrong;
    const bool any = !rows.empty();
    if (gone && !any) return std::nullopt;
    if (!gone && !exists) {
      if (!any && !wanted.id.empty()) {
        return Error{Exit::kNotFound,
                     "there is no " + noun->name + " '" + wanted.id + "'",
                     "ndctl " + noun->name + " list shows what there is; --for exists waits for it",
                     {}};
      }
      if (Failure wrong = Select(noun->shape, state, &rows)) return wrong;
    }
    if (!gone && !rows.empty()) return WriteRows(context, noun->shape, {}, std::move(rows));
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() >= context.globals.timeout) {
      return Error{Exit::kTimeout,
                   noun->name + (wanted.id.empty() ? "" : " '" + wanted.id + "'") + " was not '" +
                       wanted.condition + "' within " + HumanSeconds(context.globals.timeout),
                   "--timeout says how long to wait",
                   {}};
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(200));
  }
}

}  // namespace

void AddWait(Command root, Context& context) {
  Command app = root.Add("wait", "Until an object is there, gone or in a state; --timeout bounds it");
  const auto wanted = std::make_shared<Awaited>();
  app.Add("NOUN", &wanted->noun, "connection, listener, session, ...").Required();
  app.Add("ID", &wanted->id, "Only this one (default: any)");
  app.Add("--for", &wanted->condition, "FIELD=VALUE (as --filter), exists or gone").Required();
  app.Add("--filter", &wanted->filters, "Only of those with FIELD=VALUE or FIELD!=VALUE").Repeatable();
  app.OnRun(context, [&context, wanted] { return Wait(context, *wanted); });
}

}  // namespace nd::cli
