// SPDX-License-Identifier: Apache-2.0
// ndctl debug bundle: one file to attach to a report.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/unique_fd.h"
#include "cli/bundle.h"
#include "cli/commands.h"
#include "cli/noun.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {
namespace {

std::string FolderName() {
  char host[65] = "host";
  gethostname(host, sizeof(host) - 1);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &parts);
  return "ndbroker-" + std::string(host).substr(0, 32) + "-" + stamp;
}

Failure WriteNew(const std::string& name, const std::string& data) {
  // The lists contain names of users and commands, so only the owner may read the file. An existing file is
  // not overwritten.
  const UniqueFd fd(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    const int error = errno;
    return Error{error == EACCES ? Exit::kPermission : Exit::kFailed,
                 "cannot make " + name + ": " + std::strerror(error),
                 error == EEXIST ? "choose another name with -o FILE" : "",
                 {}};
  }
  for (std::size_t done = 0; done < data.size();) {
    const ssize_t wrote = write(fd.get(), data.data() + done, data.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = errno;
      unlink(name.c_str());
      return Error{Exit::kFailed, "cannot write " + name + ": " + std::strerror(error), {}, {}};
    }
    done += static_cast<std::size_t>(wrote);
  }
  return std::nullopt;
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
