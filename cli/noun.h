// SPDX-License-Identifier: Apache-2.0
// `ndctl NOUN list` and `ndctl NOUN show ID` for anything that the broker lists.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/format.h"

namespace nd::cli {

struct Noun {
  std::string name;     // "connection"
  std::string aliases;  // "conn connections"
  std::string about;    // One line of help.
  std::string id_name;  // What ID is, for help: "the number that the list shows".
  Shape shape;
  // Asks the broker for all rows, or with an id only for that one (empty when there is none).
  Failure (*fetch)(Context& context, const std::string& id, Value::Array* rows) = nullptr;
};

// Adds the noun with `list` and `show`; without a verb it lists. More verbs go under the result.
CLI::App* AddNoun(CLI::App& root, Context& context, const Noun& noun);

// A verb under a noun. Its positional arguments and options are added to the result.
CLI::App* AddVerb(CLI::App& noun, const std::string& name, const std::string& about);

// Calls `method` with a ListRequest and turns each item into a row.
template <typename List, typename ToRow>
Failure FetchRows(Context& context,
                  grpc::Status (AdminClient::Stub::*method)(grpc::ClientContext*,
                                                            const ndbroker::v1::ListRequest&, List*),
                  const std::string& id, ToRow to_row, Value::Array* rows) {
  ndbroker::v1::ListRequest request;
  request.set_id(id);
  List list;
  if (Failure failure = context.admin().Call(method, request, &list)) return failure;
  rows->reserve(static_cast<std::size_t>(list.items_size()));
  for (const auto& item : list.items()) rows->push_back(to_row(item));
  return std::nullopt;
}

}  // namespace nd::cli
