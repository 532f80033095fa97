// SPDX-License-Identifier: Apache-2.0
// `ndctl NOUN list`, `ndctl NOUN show ID` and `ndctl NOUN VERB ID...` for anything that the broker lists.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/context.h"
#include "cli/format.h"

namespace nd::cli {

struct Noun {
  using Names = std::vector<std::pair<std::string, std::string>>;

  std::string name;     // "connection"
  std::string aliases;  // "conn connections"
  std::string about;    // One line of help.
  std::string id_name;  // Describes ID in the help: "the number that the list shows".
  std::string message;  // The message of the protocol ("ConnectionRow") in which `explain` finds the fields.
  Shape shape;
  // Asks the broker for all rows, or with an id only for that one (empty when there is none).
  Failure (*fetch)(Context& context, const std::string& id, Value::Array* rows) = nullptr;
  Names rates = {};    // Counters and the fields of their rates, which are known from the second reading on.
  Names renamed = {};  // Fields that have another name in the message.
};

// Adds the noun with `list`, which is the default, and `show`. Further verbs are added to the returned
// command.
Command AddNoun(Command root, Context& context, const Noun& noun);

// A verb that changes the objects whose ids follow.
struct NounVerb {
  std::string name;
  std::string about;
  Failure (*act)(Context& context, const std::string& id) = nullptr;
  // Only for destructive verbs: describes the effect on this object, as "end connection c-1 of fio". Such
  // verbs have --dry-run and ask for confirmation on a terminal.
  std::string (*destroys)(const Value& row) = nullptr;
};
void AddNounVerb(Command app, Context& context, const Noun& noun, const NounVerb& verb);

// --filter and --sort.
void AddSelection(Command verb, Selection* selection);
// Reports a wrong field, sort key or column before the broker is asked.
Failure CheckSelection(const Context& context, const Shape& shape, const Selection& selection);
// Selects and formats rows, and uses the pager if wanted.
Failure WriteRows(Context& context, const Shape& shape, const Selection& selection, Value::Array rows);

}  // namespace nd::cli
