// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11: its header alone takes seconds to compile.
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

#include "cli/context.h"

namespace nd::cli {
namespace {

OptionInfo Describe(const CLI::Option& option) {
  OptionInfo info;
  info.long_names = option.get_lnames();
  info.short_names = option.get_snames();
  if (option.get_positional()) info.position = option.get_name(true, false);
  info.about = option.get_description();
  info.environment = option.get_envname();
  info.hidden = option.get_group().empty();
  info.required = option.get_required();
  info.values_min = option.get_expected_min();
  info.values_max = option.get_expected_max();
  return info;
}

CommandInfo DescribeCommand(const CLI::App& app) {
  CommandInfo info;
  info.name = app.get_name();
  info.aliases = app.get_aliases();
  info.about = app.get_description();
  info.hidden = app.get_group().empty();
  info.needs_command = app.get_require_subcommand_min() > 0;
  for (const CLI::Option* option : app.get_options()) info.options.push_back(Describe(*option));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    info.commands.push_back(DescribeCommand(*sub));
  }
  return info;
}

}  // namespace

Option Option::Required() {
  option_->required();
  return *this;
}

Option Option::Repeatable() {
  option_->expected(1)->take_all();
  return *this;
}

Option Option::Environment(const char* variable) {
  option_->envname(variable);
  return *this;
}

Option Option::OneOf(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}

Option Option::Within(std::int64_t least, std::int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Option Option::Hide() {
  option_->group("");
  return *this;
}

bool Option::given() const {
  return option_->count() > 0;
}

Command Command::Add(const std::string& name, const std::string& about) {
  if (app_->get_require_subcommand_max() == 0) app_->require_subcommand(0, 1);
  CLI::App* added = app_->add_subcommand(name, about);
  added->fallthrough();
  return Command(added);
}

Command Command::Alias(const std::string& name) {
  app_->alias(name);
  return *this;
}

Command Command::Hide() {
  app_->group("");
  return *this;
}

Command Command::RequireCommand() {
  app_->require_subcommand(1);
  return *this;
}

Option Command::Add(const std::string& names, std::string* value, const std::string& about) {
  return Option(app_->add_option(names, *value, about));
}

Option Command::Add(const std::string& names, std::vector<std::string>* values, const std::string& about) {
  return Option(app_->add_option(names, *values, about));
}

Option Command::Add(const std::string& names, int* value, const std::string& about) {
  return Option(app_->add_option(names, *value, about));
}

Option Command::Add(const std::string& names, std::uint32_t* value, const std::string& about) {
  return Option(app_->add_option(names, *value, about));
}

Option Command::Add(const std::string& names, std::uint64_t* value, const std::string& about) {
  return Option(app_->add_option(names, *value, about));
}

Option Command::AddFlag(const std::string& names, bool* value, const std::string& about) {
  return Option(app_->add_flag(names, *value, about));
}

Option Command::AddFlag(const std::string& names, std::string* value, const std::string& about) {
  return Option(app_->add_flag(names, *value, about));
}

void Command::OnRun(Context& context, std::function<Failure()> run) {
  app_->callback([app = app_, &context, run = std::move(run)] {
    if (app->get_subcommands().empty()) context.run = run;
  });
}

bool Command::Given(const std::string& option) const {
  return app_->get_option(option)->count() > 0;
}

CommandLine::CommandLine(const std::string& name, const std::string& about, const std::string& version)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->set_help_flag("-h,--help", "This text; also after a command");
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() {
  return Command(app_.get());
}

CommandInfo CommandLine::Describe() const {
  return DescribeCommand(*app_);
}

ParsedLine CommandLine::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& success) {
    std::ostringstream text, nothing;
    app_->exit(success, text, nothing);
    return {ParsedLine::Kind::kAnswered, text.str()};
  } catch (const CLI::ParseError& error) {
    return {ParsedLine::Kind::kWrong, error.what()};
  }
  return {};
}

}  // namespace nd::cli
