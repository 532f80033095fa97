// SPDX-License-Identifier: Apache-2.0
// `ndctl NOUN list`, `ndctl NOUN show ID` and `ndctl NOUN VERB ID...` for anything that the broker lists.
#pragma once

#include <google/protobuf/arena.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/context.h"
#include "cli/format.h"

namespace nd::cli {

struct Noun {
  using Names = std::vector<std::pair<std::string, std::string>>;

  std::string name;     // "connection"
  std::string aliases;  // "conn connections"
  std::string about;    // One line of help.
  std::string id_name;  // What ID is, for help: "the number that the list shows".
  std::string message;  // Of the protocol: "ConnectionRow"; where `explain` finds what a field means.
  Shape shape;
  // Asks the broker for all rows, or with an id only for that one (empty when there is none).
  Failure (*fetch)(Context& context, const std::string& id, Value::Array* rows) = nullptr;
  Names rates = {};    // Counters and the fields for their growth per second, known from the second look on.
  Names renamed = {};  // Fields that have another name in the message.
};

// Adds the noun with `list` and `show`; without a verb it lists. More verbs go under the result.
CLI::App* AddNoun(CLI::App& root, Context& context, const Noun& noun);

// A verb under a noun. Its positional arguments and options are added to the result.
CLI::App* AddVerb(CLI::App& noun, const std::string& name, const std::string& about);

// A verb that changes the objects whose ids follow.
struct NounVerb {
  std::string name;
  std::string about;
  Failure (*act)(Context& context, const std::string& id) = nullptr;
  // Only of verbs that destroy: what it does to this one, "end connection c-1 of fio". They know --dry-run
  // and ask first on a terminal.
  std::string (*destroys)(const Value& row) = nullptr;
};
void AddNounVerb(CLI::App& app, Context& context, const Noun& noun, const NounVerb& verb);

// --filter and --sort.
void AddSelection(CLI::App& verb, Selection* selection);
// A wrong field, sort or column is told before the broker is asked.
Failure CheckSelection(const Context& context, const Shape& shape, const Selection& selection);
// Selects, formats, and pages when that is wanted.
Failure WriteRows(Context& context, const Shape& shape, const Selection& selection, Value::Array rows);

// Calls `method` with a ListRequest and turns each item into a row.
template <typename List, typename ToRow>
Failure FetchRows(Context& context,
                  grpc::Status (AdminClient::Stub::*method)(grpc::ClientContext*,
                                                            const ndbroker::v1::ListRequest&, List*),
                  const std::string& id, ToRow to_row, Value::Array* rows) {
  ndbroker::v1::ListRequest request;
  request.set_id(id);
  google::protobuf::Arena arena;  // Thousands of small messages in one piece.
  List* list = google::protobuf::Arena::CreateMessage<List>(&arena);
  if (Failure failure = context.admin().Call(method, request, list)) return failure;
  rows->reserve(static_cast<std::size_t>(list->items_size()));
  for (const auto& item : list->items()) rows->push_back(to_row(item));
  return std::nullopt;
}

}  // namespace nd::cli
