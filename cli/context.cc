// SPDX-License-Identifier: Apache-2.0
// Services for every command.
#include "cli/context.h"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "base/locate.h"
#include "base/os/error_text.h"
#include "base/os/self.h"
#include "cli/noun.h"
#include "cli/pager.h"
#include "cli/rows.h"

namespace nd::cli {

std::string Context::Directory() const {
  return globals.address.empty() ? FindBrokerDirectory() : globals.address;
}

AdminClient& Context::admin() {
  if (admin_ != nullptr) return *admin_;
  admin_ = globals.remote.host.empty() ? std::make_unique<AdminClient>(Directory(), globals.timeout)
                                       : std::make_unique<AdminClient>(globals.remote, globals.timeout);
  return *admin_;
}

const Noun* Context::FindNoun(const std::string& name) const {
  for (const auto& noun : nouns) {
    std::istringstream words(noun->aliases);
    bool found = noun->name == name;
    for (std::string alias; !found && words >> alias;) found = alias == name;
    if (found) return noun.get();
  }
  return nullptr;
}

Failure Context::Write(const std::string& text) const {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return std::nullopt;
  }
  if (errno == EPIPE)
    return Error{Exit::kFailed, {}, {}, {}};  // The reader of the pipe has ended, as `head` does.
  return Error{Exit::kFailed, std::string("cannot write the output: ") + os::ErrorText(errno), {}, {}};
}

Failure Context::Page(const std::string& text) const {
  if (!globals.no_pager && WantsPager(text) && RunPager(text)) return std::nullopt;
  return Write(text);
}

Failure Context::WriteOne(const Shape& shape, const Value& row) const {
  std::string text;
  if (Failure failure = FormatOne(shape, row, output, &text)) return failure;
  return Write(text);
}

Failure Context::WriteOutcome(const char* status, bool dry_run, const std::string& message) const {
  if (!output.machine()) return Write(message + "\n");
  Shape shape;
  shape.kind = "Outcome";
  Value row = Value::MakeObject();
  row.Set("status", status).Set("message", message);
  if (dry_run) row.Set("dry_run", true);
  return WriteOne(shape, row);
}

Failure Context::Done(const ndbroker::v1::Outcome& outcome, const std::string& what,
                      const std::string& done) const {
  const Status status = StatusOf(outcome.status());
  if (Failure failure = FailureOf(status, what)) return failure;
  const std::string note = status.message().empty() ? "" : "; " + status.message();
  return WriteOutcome("SUCCESS", false, done + note);
}

Failure Context::DryRun(const std::string& what) const {
  return WriteOutcome("SUCCESS", true, "would " + what);
}

bool Context::CanAsk() const {
  return !globals.yes && os::IsTerminal(os::Stream::kInput) && os::IsTerminal(os::Stream::kError);
}

Failure Context::Confirm(const std::string& what) const {
  if (!CanAsk()) return std::nullopt;
  std::fprintf(stderr, "ndctl: this will %s. Continue? [y/N] ", Printable(what).c_str());
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return std::nullopt;
  return Error{Exit::kFailed, "nothing was changed", "answer y, or give --yes to be asked nothing", {}};
}

void Context::Progress(const std::string& text) const {
  if (os::IsTerminal(os::Stream::kError)) std::fprintf(stderr, "\r\033[K%s", Printable(text).c_str());
}

void Context::Complain(const Error& error) const {
  const bool json = output.format == Format::kJson || output.format == Format::kJsonl;
  std::fputs(FormatError(error, json).c_str(), stderr);
}

}  // namespace nd::cli
