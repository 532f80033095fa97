// SPDX-License-Identifier: Apache-2.0
// What every command gets: the global options, the line to the broker, and where output goes.
//
// One thread. Each service says in its Failure what went wrong; none throws.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/admin.h"
#include "cli/error.h"
#include "cli/format.h"

namespace nd::cli {

struct Noun;

struct Globals {
  std::string output = "table";
  std::string color = "auto";
  std::string address;  // Empty: by the rule of base/locate.h.
  Remote remote;        // Host empty: this one.
  std::string timeout_text = "5";
  double timeout = 5;          // `timeout_text` in seconds.
  bool timeout_given = false;  // Not the default.
  bool quiet = false;
  bool no_headers = false;
  bool no_pager = false;
  bool yes = false;
};

class Context {
 public:
  Globals globals;
  Output output;                                   // Set before a command runs.
  std::string command_line;                        // "ndctl connection list"
  std::vector<std::shared_ptr<const Noun>> nouns;  // Every noun that lists something.

  // The command that the command line chose; set by exactly one subcommand's callback.
  std::function<Failure()> run;

  std::string Directory() const;
  AdminClient& admin();
  // The next call dials anew.
  void Reconnect() { admin_.reset(); }
  // Null when there is none of this name or alias.
  const Noun* FindNoun(const std::string& name) const;

  // To stdout, at once. Fails when stdout is gone (closed pipe, full disk).
  Failure Write(const std::string& text) const;
  // As Write(); what does not fit a terminal goes through the user's pager.
  Failure Page(const std::string& text) const;
  // Formats one object and writes it.
  Failure WriteOne(const Shape& shape, const Value& row) const;
  // The usual end of a command that changed something.
  Failure Done(const ndbroker::v1::Outcome& outcome, const std::string& what, const std::string& done) const;
  // "would ..." instead of doing it.
  Failure DryRun(const std::string& what) const;
  // Asks on a terminal before `what` is done; a script, and --yes, is taken at its word.
  Failure Confirm(const std::string& what) const;
  bool CanAsk() const;
  // One line on a terminal's stderr that the next one replaces; nothing elsewhere. Empty removes it.
  void Progress(const std::string& text) const;
  // An error that does not end the command.
  void Complain(const Error& error) const;

 private:
  Failure WriteOutcome(const char* status, bool dry_run, const std::string& message) const;

  std::unique_ptr<AdminClient> admin_;
};

}  // namespace nd::cli
