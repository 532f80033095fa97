// SPDX-License-Identifier: Apache-2.0
// What every command gets: the global options, the line to the broker, and where output goes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/admin.h"
#include "cli/error.h"
#include "cli/format.h"

namespace nd::cli {

struct Globals {
  std::string output = "table";
  std::string color = "auto";
  std::string address;  // Empty: by the rule of base/locate.h.
  double timeout = 5;
};

class Context {
 public:
  Globals globals;
  Output output;  // Set before a command runs.

  // The command that the command line chose; set by exactly one subcommand's callback.
  std::function<Failure()> run;

  std::string Directory() const;
  AdminClient& admin();
  // To stdout, at once. Fails when stdout is gone (closed pipe, full disk).
  Failure Write(const std::string& text) const;
  // The usual end of a command that changed something.
  Failure Done(const ndbroker::v1::Outcome& outcome, const std::string& what, const std::string& done) const;

 private:
  std::unique_ptr<AdminClient> admin_;
};

}  // namespace nd::cli
