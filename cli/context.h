// SPDX-License-Identifier: Apache-2.0
// The context of every command: global options, the client of the broker, and the output.
//
// One thread. Each service returns a Failure; none throws.
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
  std::string address;  // Empty: the rule of base/locate.h applies.
  Remote remote;        // Host empty: this host.
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

  // The selected command, set by the callback of its subcommand.
  std::function<Failure()> run;

  std::string Directory() const;
  AdminClient& admin();
  // The next call connects again.
  void Reconnect() { admin_.reset(); }
  // Null when there is none of this name or alias.
  const Noun* FindNoun(const std::string& name) const;

  // Writes to stdout at once. Fails when stdout cannot be written (closed pipe, full disk).
  Failure Write(const std::string& text) const;
  // As Write(), but text that does not fit the terminal goes through the pager of the user.
  Failure Page(const std::string& text) const;
  // Formats one object and writes it.
  Failure WriteOne(const Shape& shape, const Value& row) const;
  // Reports the outcome of a command that changes something.
  Failure Done(const v1::Outcome& outcome, const std::string& what, const std::string& done) const;
  // Prints "would ..." for --dry-run.
  Failure DryRun(const std::string& what) const;
  // Asks for confirmation on a terminal before `what` is done; does not ask in a script or with --yes.
  Failure Confirm(const std::string& what) const;
  bool CanAsk() const;
  // Shows one line on stderr if it is a terminal; the next call replaces it. An empty text removes it.
  void Progress(const std::string& text) const;
  // An error that does not end the command.
  void Complain(const Error& error) const;

 private:
  Failure WriteOutcome(const char* status, bool dry_run, const std::string& message) const;

  std::unique_ptr<AdminClient> admin_;
};

}  // namespace nd::cli
