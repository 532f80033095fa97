// SPDX-License-Identifier: Apache-2.0
// ndctl debug bundle: one file to attach to a report.
#include <cerrno>
#include <ctime>
#include <memory>

#include "base/os/error_text.h"
#include "base/os/file.h"
#include "base/os/host.h"
#include "base/utc_time.h"
#include "cli/bundle.h"
#include "cli/commands.h"
#include "cli/noun.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {
namespace {

std::string FolderName() {
  const std::string host = os::HostName();
  const std::tm parts = UtcParts(std::time(nullptr));
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &parts);
  return "ndbroker-" + (host.empty() ? "host" : host.substr(0, 32)) + "-" + stamp;
}

Failure WriteNew(const std::string& name, const std::string& data) {
  // The lists contain names of users and commands, so only the owner may read the file. An existing file is
  // not overwritten.
  const int error = os::WriteNewFile(name, data, os::Readers::kOwner);
  if (error == 0) return std::nullopt;
  return Error{error == EACCES ? Exit::kPermission : Exit::kFailed,
               "cannot make " + name + ": " + os::ErrorText(error),
               error == EEXIST ? "choose another name with -o FILE" : "",
               {}};
}

Failure Bundle(Context& context, const std::string& wanted) {
  const std::string folder = FolderName();
  const std::vector<ArchiveFile> files = CollectBundle(context, folder);
  const std::string archive = Gzip(Tar(files, std::time(nullptr)));
  if (archive.empty()) return Error{Exit::kFailed, "no memory to compress the bundle", {}, {}};
  if (wanted == "-") return context.Write(archive);
  const std::string name = wanted.empty() ? folder + ".tar.gz" : wanted;
  if (Failure failure = WriteNew(name, archive)) return failure;
  ndbroker::v1::Outcome outcome;
  return context.Done(outcome, {},
                      name + ": " + std::to_string(files.size()) + " files, " +
                          HumanBytes(static_cast<double>(archive.size())) +
                          "; manifest.json says what could not be had");
}

}  // namespace

void AddDebug(Command root, Context& context) {
  Command app = root.Add("debug", "For reports: bundle");
  app.RequireCommand();
  Command bundle = app.Add("bundle", "Status, lists, configuration, log, history and checks in one .tar.gz");
  const auto file = std::make_shared<std::string>();
  bundle.Add("-o,--output", file.get(),
             "FILE.tar.gz; - for standard output (default: a name with host and time)");
  bundle.OnRun(context, [&context, file] { return Bundle(context, *file); });
}

}  // namespace nd::cli
