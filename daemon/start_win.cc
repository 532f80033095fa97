// SPDX-License-Identifier: Apache-2.0
// "ndbrokerd --service install|uninstall|start|stop|run": the service control manager of Windows. "configure"
// and "clean" are for the installer, which registers and removes the service itself
// (deploy/windows/ndbroker.wxs).
#include "daemon/start.h"

#include "base/os/access_win.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/locate.h"
#include "base/os/file.h"
#include "base/os/firewall_win.h"
#include "base/os/service_control_win.h"
#include "daemon/ops/event_log_win.h"
#include "daemon/server/runtime_dir_win.h"

namespace nd {
namespace {

constexpr std::uint64_t kLongLog = 8 << 20;

namespace control = os::service;

constexpr std::string_view kNewConfig =
    "# Configuration of the service ndbrokerd. Every setting has a default; docs/configuration.md lists "
    "them.\r\n";

const control::Facts& Facts() {
  static const control::Facts facts{
      L"ndbrokerd", L"Network Direct connection broker",
      L"Makes the RDMA connections of the programs of this host. Connections that exist go on without it."};
  return facts;
}

// One argument as CommandLineToArgvW() and the C library read it back.
std::wstring Quoted(std::string_view argument) {
  std::wstring text = L"\"";
  std::size_t backslashes = 0;
  for (const wchar_t c : os::WidePath(std::string(argument))) {
    if (c == L'"') text.append(backslashes + 1, L'\\');
    backslashes = c == L'\\' ? backslashes + 1 : 0;
    text += c;
  }
  return text.append(backslashes, L'\\') + L'"';
}

std::string In(const std::string& directory, const char* name) {
  return directory + "\\" + name;
}

// The configuration of the service, for its owner, administrators and the system. An existing one stays.
Status MakeConfiguration(const std::string& directory, std::string* file) {
  *file = In(directory, "ndbrokerd.toml");
  if (Status status = nd::service::MakeRuntimeDirectory(directory); !status.ok()) return status;
  const int error = os::WriteNewFile(*file, kNewConfig, os::Readers::kOwner);
  if (error == 0 || error == EEXIST) return Status::Ok();
  return {StatusCode::kUnsuccessful, "cannot make " + *file, Detail::kNone, error};
}

// A service that has reported its stop may still have the file open for a moment; waits 5 s at most.
void RemoveWhenClosed(const std::string& file) {
  for (int tries = 0; tries < 100; ++tries) {
    const int error = os::RemoveFile(file);
    if (error == 0 || error == ENOENT) return;
    ::Sleep(50);
  }
}

// Removes the files that the broker made, a configuration that nobody changed, and the directory if it is
// empty then. Returns a sentence about what stays.
std::string RemoveFiles(const std::string& directory) {
  for (const char* name : {"ndbrokerd.lock", "ndbrokerd.log", "ndbrokerd.log.old", "journal", "journal.bad",
                           "journal.new", "reattach.key", "history.db", "history.db-shm", "history.db-wal"}) {
    RemoveWhenClosed(In(directory, name));
  }
  const std::string config = In(directory, "ndbrokerd.toml");
  std::string text;
  if (os::ReadPrivateFile(config, kNewConfig.size() + 1, &text) == 0 && text == kNewConfig)
    os::RemoveFile(config);
  if (::RemoveDirectoryW(os::WidePath(directory).c_str()) != 0 || ::GetLastError() == ERROR_FILE_NOT_FOUND)
    return {};
  return directory + " stays, because it has a configuration or other files of this host";
}

// A service has no standard error. The log goes to a file in the directory of the broker; at a start with a
// long one the file begins anew, and its former content is kept once.
void OpenLog(const std::string& directory) {
  const std::string log = In(directory, "ndbrokerd.log");
  static_cast<void>(nd::service::MakeRuntimeDirectory(directory));  // The broker reports a failure.
  os::FileFacts facts;
  if (os::Look(log, &facts) == 0 && facts.size > kLongLog) {
    ::MoveFileExW(os::WidePath(log).c_str(), os::WidePath(log + ".old").c_str(), MOVEFILE_REPLACE_EXISTING);
  }
  os::EnsureFile(log);
  ops::LogToFile(log);
}

int Report(const char* done, const Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "ndbrokerd: %s\n", status.message().c_str());
    return 1;
  }
  std::printf("%s%s%s\n", done, status.message().empty() ? "" : "; ", status.message().c_str());
  return 0;
}

int Usage() {
  std::fputs(
      "usage: ndbrokerd --service install [OPTION...]   the options of the broker when it is a service\n"
      "       ndbrokerd --service uninstall|start|stop|open-firewall|close-firewall\n"
      "       ndbrokerd --service configure|clean      for the installer: settings and files of the "
      "service\n",
      stderr);
  return 2;
}

// Of a service that the installer has registered.
Status Configure() {
  std::string config;
  const Status made = MakeConfiguration(OwnBrokerDirectory(), &config);
  return made.ok() ? control::Configure(Facts()) : made;
}

int Install(int count, char** options) {
  std::string text;
  std::wstring line;
  bool configured = false, placed = false;
  for (int i = 0; i < count; ++i) {
    configured = configured || std::string_view(options[i]).starts_with("--config");
    placed = placed || std::string_view(options[i]) == "--dir";
    line += Quoted(options[i]) + L" ";
  }
  if (!configured) {
    if (Status status = MakeConfiguration(OwnBrokerDirectory(), &text); !status.ok())
      return Report("", status);
    line += L"--config " + Quoted(text) + L" ";
  }
  // Explicit, because a service can have another environment than this process.
  if (!placed) line += L"--dir " + Quoted(OwnBrokerDirectory());
  return Report("installed", control::Install(Facts(), line));
}

}  // namespace

int StartProgram(int argc, char** argv, int (*program)(int argc, char** argv)) {
  if (argc < 2 || std::string_view(argv[1]) != "--service") return program(argc, argv);
  const std::string_view verb = argc > 2 ? argv[2] : "";
  if (verb == "run") {
    std::vector<char*> arguments = {argv[0]};
    arguments.insert(arguments.end(), argv + 3, argv + argc);
    arguments.push_back(nullptr);
    std::string directory = OwnBrokerDirectory();
    for (int i = 3; i + 1 < argc; ++i) {
      if (std::string_view(argv[i]) == "--dir") directory = argv[i + 1];
    }
    const Status status = control::Run(Facts().name, [&] {
      OpenLog(directory);
      return program(static_cast<int>(arguments.size()) - 1, arguments.data());
    });
    std::fprintf(stderr,
                 "ndbrokerd: %s; start the broker without \"--service run\", or as a service with "
                 "\"--service start\"\n",
                 status.message().c_str());
    return 2;
  }
  if (verb == "install") return Install(argc - 3, argv + 3);
  if (argc != 3) return Usage();
  if (verb == "uninstall") {
    const Status status = control::Uninstall(Facts().name);
    return Report("removed",
                  status.ok() ? Status(StatusCode::kSuccess, RemoveFiles(OwnBrokerDirectory())) : status);
  }
  if (verb == "open-firewall") return Report("open", os::OpenFirewall());
  if (verb == "close-firewall") return Report("closed", os::CloseFirewall());
  if (verb == "configure") return Report("configured", Configure());
  if (verb == "clean") return Report("cleaned", {StatusCode::kSuccess, RemoveFiles(OwnBrokerDirectory())});
  if (verb == "start") return Report("serving", control::Start(Facts().name));
  if (verb == "stop") return Report("stopped", control::Stop(Facts().name));
  return Usage();
}

}  // namespace nd
