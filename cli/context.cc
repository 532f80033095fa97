// SPDX-License-Identifier: Apache-2.0
// Small services of every command.
#include "cli/context.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/locate.h"
#include "cli/rows.h"

namespace nd::cli {

std::string Context::Directory() const {
  return globals.address.empty() ? FindBrokerDirectory() : globals.address;
}

AdminClient& Context::admin() {
  if (admin_ == nullptr) admin_ = std::make_unique<AdminClient>(Directory(), globals.timeout);
  return *admin_;
}

Failure Context::Write(const std::string& text) const {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return std::nullopt;
  }
  return Error{Exit::kFailed, std::string("cannot write the output: ") + std::strerror(errno), {}, {}};
}

Failure Context::Done(const ndbroker::v1::Outcome& outcome, const std::string& what,
                      const std::string& done) const {
  const Status status = StatusOf(outcome.status());
  if (Failure failure = FailureOf(status, what)) return failure;
  if (!output.machine()) return Write(done + "\n");
  Shape shape;
  shape.kind = "Outcome";
  Value row = Value::MakeObject();
  row.Set("status", nd::Name(status.code())).Set("message", done);
  std::string text;
  if (Failure failure = FormatOne(shape, row, output, &text)) return failure;
  return Write(text);
}

}  // namespace nd::cli
