// SPDX-License-Identifier: Apache-2.0
// ndctl config: the settings in force, and a check of another file.
#include <cerrno>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/os/error_text.h"
#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

constexpr std::size_t kLongestFile = 4 << 20;

Value RowOfSetting(const v1::ConfigSetting& setting) {
  Value row = Value::MakeObject();
  row.Set("name", setting.name()).Set("value", setting.value()).Set("origin", setting.origin());
  return row;
}

Shape SettingShape() {
  return {"ConfigSetting",
          "name",
          {{"NAME", "name"}, {"VALUE", "value"}, {"ORIGIN", "origin"}},
          RowOfSetting({})};
}

Failure ShowSettings(Context& context, const Selection& selection, bool only_changed) {
  if (Failure failure = CheckSelection(context, SettingShape(), selection)) return failure;
  v1::ConfigReply reply;
  if (Failure failure = context.admin().GetConfig(v1::GetConfigRequest(), &reply)) {
    return failure;
  }
  Value::Array rows;
  for (const auto& setting : reply.settings()) {
    if (!only_changed || setting.origin() != "default") rows.push_back(RowOfSetting(setting));
  }
  if (!reply.needs_restart().empty()) {
    std::fprintf(stderr, "ndctl: %s now says something else about %s; that needs a restart of the broker\n",
                 Printable(reply.file()).c_str(), Printable(reply.needs_restart()).c_str());
  }
  return WriteRows(context, SettingShape(), selection, std::move(rows));
}

Failure ReadFile(const std::string& name, std::string* text) {
  std::ifstream file;
  if (name != "-") {
    file.open(name);
    if (!file) {
      const int error = errno;
      const Exit exit = error == ENOENT   ? Exit::kNotFound
                        : error == EACCES ? Exit::kPermission
                                          : Exit::kFailed;
      return Error{exit, "cannot read " + name + ": " + os::ErrorText(error), {}, {}};
    }
  }
  std::istream& in = name == "-" ? std::cin : file;
  text->resize(kLongestFile + 1);
  in.read(text->data(), static_cast<std::streamsize>(text->size()));
  text->resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad() || (text->empty() && !in.eof())) {
    return Error{Exit::kFailed, "cannot read " + name + ": " + os::ErrorText(errno), {}, {}};
  }
  if (text->size() <= kLongestFile) return std::nullopt;
  return Error{Exit::kFailed, name + " is longer than any configuration (4 MiB)", {}, {}};
}

Failure CheckFile(Context& context, const std::string& name) {
  v1::CheckConfigRequest request;
  if (Failure failure = ReadFile(name, request.mutable_text())) return failure;
  request.set_file(name == "-" ? "standard input" : name);
  v1::CheckConfigReply reply;
  if (Failure failure = context.admin().CheckConfig(request, &reply)) {
    if (failure->exit == Exit::kUnreachable)
      failure->hint += "; without it: ndbrokerd --check-config " + name;
    return failure;
  }
  Failure failure = FailureOf(StatusOf(reply.status()), "this broker would not take " + request.file());
  if (failure) {
    failure->exit = Exit::kFailed;
    return failure;
  }
  v1::Outcome outcome;
  return context.Done(
      outcome, {},
      request.file() + " is right; " +
          (reply.needs_restart().empty() ? "a reload is enough"
                                         : "a change of " + reply.needs_restart() + " needs a restart"));
}

Failure Reload(Context& context) {
  v1::Outcome outcome;
  if (Failure failure = context.admin().Reload(v1::ReloadRequest(), &outcome)) {
    return failure;
  }
  Failure failure = context.Done(outcome, "the old configuration stays", "configuration read again");
  // For other commands INVALID_PARAMETER means a missing object; here it means an invalid file.
  if (failure && failure->exit == Exit::kNotFound) failure->exit = Exit::kFailed;
  return failure;
}

}  // namespace

void AddConfig(Command root, Context& context) {
  Command app = root.Add("config", "The configuration: show, diff, check, reload");
  app.RequireCommand();
  for (const bool only_changed : {false, true}) {
    Command show = only_changed ? app.Add("diff", "Only settings that are not the default")
                                : app.Add("show", "Every setting in force and where it comes from");
    const auto selection = std::make_shared<Selection>();
    AddSelection(show, selection.get());
    show.OnRun(context, [&context, selection, only_changed] {
      return ShowSettings(context, *selection, only_changed);
    });
  }
  Command check = app.Add("check", "Would the broker take this file? Changes nothing");
  const auto file = std::make_shared<std::string>();
  check.Add("FILE", file.get(), "The file; - for standard input").Required();
  check.OnRun(context, [&context, file] { return CheckFile(context, *file); });
  Command reload = app.Add("reload", "Read policy and limits again; an error changes nothing");
  reload.OnRun(context, [&context] { return Reload(context); });
}

}  // namespace nd::cli
