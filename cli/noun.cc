// SPDX-License-Identifier: Apache-2.0
// List and show are the same for every noun; only rows and columns differ.
#include "cli/noun.h"

#include <memory>
#include <sstream>

namespace nd::cli {
namespace {

Failure ListAll(Context& context, const Noun& noun, const Selection& selection) {
  // A wrong field is told before the broker is asked.
  Value::Array none;
  if (Failure failure = Select(noun.shape, selection, &none)) return failure;
  std::string text;
  if (Failure failure = FormatList(noun.shape, none, context.output, &text)) return failure;
  Value::Array rows;
  if (Failure failure = noun.fetch(context, {}, &rows)) return failure;
  if (Failure failure = Select(noun.shape, selection, &rows)) return failure;
  if (Failure failure = FormatList(noun.shape, rows, context.output, &text)) return failure;
  return context.Write(text);
}

Failure ShowOne(Context& context, const Noun& noun, const std::string& id) {
  Value::Array rows;
  if (Failure failure = noun.fetch(context, id, &rows)) return failure;
  // The broker may match more than an exact id.
  std::erase_if(rows, [&](const Value& row) {
    const Value* found = row.Find(noun.shape.id_path);
    return found == nullptr || found->Text() != id;
  });
  if (rows.empty()) {
    return Error{Exit::kNotFound,
                 "there is no " + noun.name + " '" + id + "'",
                 "ndctl " + noun.name + " list shows what there is",
                 {}};
  }
  std::string text;
  for (const Value& row : rows) {
    std::string part;
    if (Failure failure = FormatOne(noun.shape, row, context.output, &part)) return failure;
    text += part;
  }
  return context.Write(text);
}

}  // namespace

CLI::App* AddVerb(CLI::App& noun, const std::string& name, const std::string& about) {
  CLI::App* verb = noun.add_subcommand(name, about);
  verb->fallthrough();
  return verb;
}

CLI::App* AddNoun(CLI::App& root, Context& context, const Noun& noun) {
  const auto shared = std::make_shared<const Noun>(noun);
  CLI::App* app = root.add_subcommand(noun.name, noun.about);
  app->fallthrough();
  app->require_subcommand(0, 1);
  std::istringstream words(noun.aliases);
  for (std::string alias; words >> alias;) app->alias(alias);
  app->callback([app, &context, shared] {
    if (app->get_subcommands().empty())
      context.run = [&context, shared] { return ListAll(context, *shared, {}); };
  });

  CLI::App* list = AddVerb(*app, "list", "All of them, one line each");
  list->alias("ls");
  const auto selection = std::make_shared<Selection>();
  list->add_option("--filter", selection->filters,
                   "Only rows with FIELD=VALUE or FIELD!=VALUE; VALUE may hold * and ?; all must hold")
      ->expected(1)
      ->take_all();
  list->add_option("--sort", selection->sort, "Order by a column or field; -FIELD the other way round");
  list->add_flag("!--no-headers", context.output.headers, "No line of column names");
  list->callback([&context, shared, selection] {
    context.run = [&context, shared, selection] { return ListAll(context, *shared, *selection); };
  });

  CLI::App* show = AddVerb(*app, "show", "Everything about one of them");
  const auto id = std::make_shared<std::string>();
  show->add_option("ID", *id, noun.id_name)->required();
  show->callback([&context, shared, id] {
    context.run = [&context, shared, id] { return ShowOne(context, *shared, *id); };
  });
  return app;
}

}  // namespace nd::cli
