// SPDX-License-Identifier: Apache-2.0
// ndctl mr: registered memory and its access rights. Keys are not shown, because they give access to the
// memory.
#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfRegion(const v1::MemoryRegionRow& region) {
  Value row = Value::MakeObject();
  row.Set("id", region.id())
      .Set("kind", region.kind())
      .Set("size_bytes", static_cast<std::uint64_t>(region.bytes()))
      .Set("access", region.access())
      .Set("buffer", region.buffer())
      .Set("adapter", region.adapter())
      .Set("owner", OwnerValue(region.owner()));
  return row;
}

Failure FetchRegions(Context& context, const std::string& id, Value::Array* rows) {
  v1::ListRequest request;
  request.set_id(id);
  v1::MemoryRegionList list;
  if (Failure failure = context.admin().ListMemoryRegions(request, &list)) {
    return failure;
  }
  for (const auto& item : list.items()) rows->push_back(RowOfRegion(item));
  if (list.unlisted() > 0 && id.empty()) {
    std::fprintf(stderr, "ndctl: %llu regions more exist, in processes with more than their table holds\n",
                 static_cast<unsigned long long>(list.unlisted()));
  }
  return std::nullopt;
}

}  // namespace

void AddMr(Command root, Context& context) {
  Noun noun;
  noun.name = "mr";
  noun.aliases = "mrs memory-region memory-regions";
  noun.about = "Registered memory: list, show";
  noun.id_name = "SESSION:NUMBER, as the list shows it";
  noun.message = "MemoryRegionRow";
  noun.shape = {"MemoryRegion",
                "id",
                {{"ID", "id"},
                 {"KIND", "kind"},
                 {"SIZE", "size_bytes", Show::kBytes},
                 {"ACCESS", "access"},
                 {"BUFFER", "buffer"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber},
                 {"ADAPTER", "adapter", Show::kText, true},
                 {"UID", "owner.uid", Show::kNumber, true},
                 {"UNIT", "owner.unit", Show::kText, true},
                 {"CONTAINER", "owner.container", Show::kText, true},
                 {"COMMAND", "owner.command", Show::kText, true}},
                RowOfRegion({})};
  noun.fetch = FetchRegions;
  noun.renamed = {{"size_bytes", "bytes"}};
  AddNoun(root, context, noun);
}

}  // namespace nd::cli
