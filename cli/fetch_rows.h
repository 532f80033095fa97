// SPDX-License-Identifier: Apache-2.0
// From a list of the protocol to rows: Noun::fetch of most nouns is one call of FetchRows().
#pragma once

#include <google/protobuf/arena.h>

#include <string>

#include "cli/context.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {

// Calls `method` with a ListRequest and turns each item into a row.
template <typename List, typename ToRow>
Failure FetchRows(Context& context, Failure (AdminClient::*method)(const v1::ListRequest&, List*),
                  const std::string& id, ToRow to_row, Value::Array* rows) {
  v1::ListRequest request;
  request.set_id(id);
  google::protobuf::Arena arena;  // Holds thousands of small messages.
  List* list = google::protobuf::Arena::CreateMessage<List>(&arena);
  if (Failure failure = (context.admin().*method)(request, list)) return failure;
  rows->reserve(static_cast<std::size_t>(list->items_size()));
  for (const auto& item : list->items()) rows->push_back(to_row(item));
  return std::nullopt;
}

}  // namespace nd::cli
