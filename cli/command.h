// SPDX-License-Identifier: Apache-2.0
// The command line: commands, their options, and the function of each command.
//
// CLI11 parses; command.cc is the only file that includes it. Command and Option are handles: copy them. The
// objects that they name belong to the CommandLine. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_info.h"
#include "cli/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nd::cli {

class Context;

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required();
  // May be given several times; each time takes one value.
  Option Repeatable();
  // The environment variable that provides the value when the line does not.
  Option Environment(const char* variable);
  Option OneOf(const std::vector<std::string>& words);
  Option Within(std::int64_t least, std::int64_t most);
  // --help shows the value that the variable has now.
  Option ShowDefault();
  // Not in --help, completion or the manual page.
  Option Hide();

  // True when the option is on the line or in the environment; valid after parsing.
  bool given() const;

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  // A command under this one. Options of the commands above it may follow it.
  Command Add(const std::string& name, const std::string& about);
  Command Alias(const std::string& name);
  // Not in --help, completion or the manual page.
  Command Hide();
  // One of the commands under it must follow; without this they are optional.
  Command RequireCommand();

  // `names` is "-c,--count" or, for a word at its place, "ADDRESS". The value arrives in `*value`, which must
  // outlive the line.
  Option Add(const std::string& names, std::string* value, const std::string& about);
  Option Add(const std::string& names, std::vector<std::string>* values, const std::string& about);
  Option Add(const std::string& names, int* value, const std::string& about);
  Option Add(const std::string& names, std::uint32_t* value, const std::string& about);
  Option Add(const std::string& names, std::uint64_t* value, const std::string& about);
  Option AddFlag(const std::string& names, bool* value, const std::string& about);
  // "--watch{2}": without a value it means "2".
  Option AddFlag(const std::string& names, std::string* value, const std::string& about);

  // Sets Context::run when the line names this command and none under it.
  void OnRun(Context& context, std::function<Failure()> run);

  // True when the line, or the environment, gave this option of the command.
  bool Given(const std::string& option) const;

 private:
  CLI::App* app_;
};

struct ParsedLine {
  enum class Kind { kRun, kAnswered, kWrong };
  Kind kind = Kind::kRun;
  // kAnswered: the text of --help or --version. kWrong: the parser's own sentence.
  std::string text;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& about, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root();
  // Describes the commands and options added so far, as plain values.
  CommandInfo Describe() const;
  // Forgets the line before.
  ParsedLine Parse(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace nd::cli
