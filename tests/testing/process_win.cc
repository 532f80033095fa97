// SPDX-License-Identifier: Apache-2.0
// Children are started by CreateProcess in a job that ends with this process. A child keeps its number while
// this process has its handle, as a process of Linux does until it is waited for.
#include "tests/testing/process.h"

#include "base/os/object_win.h"

#include <winternl.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/os/access_win.h"

extern "C" NTSTATUS NTAPI NtSuspendProcess(HANDLE process);
extern "C" NTSTATUS NTAPI NtResumeProcess(HANDLE process);

namespace nd::testing {
namespace {

// The exit code of a process that Kill() ended.
constexpr DWORD kKilled = 0xC000013A;
constexpr char kDescriptor3[] = "NDBROKER_TEST_DESCRIPTOR3";

struct Children {
  std::mutex mutex;
  std::map<pid_t, os::Handle> handles;

  static Children& The() {
    static auto* const children = new Children;
    return *children;
  }
  HANDLE Find(pid_t pid) {
    const std::lock_guard lock(mutex);
    const auto found = handles.find(pid);
    return found == handles.end() ? nullptr : found->second.get();
  }
};

[[noreturn]] void Die(const std::string& call) {
  std::fprintf(stderr, "%s: Windows error %lu\n", call.c_str(), ::GetLastError());
  std::abort();
}

HANDLE Job() {
  static const HANDLE job = [] {
    const HANDLE made = ::CreateJobObjectW(nullptr, nullptr);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    if (made == nullptr ||
        ::SetInformationJobObject(made, JobObjectExtendedLimitInformation, &limits, sizeof limits) == 0) {
      Die("CreateJobObject");
    }
    return made;
  }();
  return job;
}

// One word of a command line, by the rules of CommandLineToArgvW.
std::string Quoted(const std::string& word) {
  std::string line = "\"";
  std::size_t backslashes = 0;
  for (const char c : word) {
    if (c == '\\') {
      ++backslashes;
      continue;
    }
    line.append(c == '"' ? 2 * backslashes + 1 : backslashes, '\\');
    backslashes = 0;
    line += c;
  }
  line.append(2 * backslashes, '\\');
  return line + "\"";
}

// The environment of this process with these variables.
std::wstring Environment(const std::vector<std::string>& added) {
  std::map<std::wstring, std::wstring> variables;
  const auto put = [&](const std::wstring& line) {
    const std::size_t cut = line.find(L'=', 1);
    if (cut != std::wstring::npos) variables[line.substr(0, cut)] = line;
  };
  wchar_t* const own = ::GetEnvironmentStringsW();
  for (const wchar_t* line = own; *line != L'\0'; line += std::wcslen(line) + 1) put(line);
  ::FreeEnvironmentStringsW(own);
  for (const std::string& line : added) put(os::WidePath(line));
  std::wstring block;
  for (const auto& [name, line] : variables) block.append(line).push_back(L'\0');
  block.push_back(L'\0');
  return block;
}

os::Handle OutputFile(const std::string& path) {
  SECURITY_ATTRIBUTES inherited{sizeof inherited, nullptr, TRUE};
  os::Handle file(::CreateFileW(os::WidePath(path).c_str(), FILE_APPEND_DATA | SYNCHRONIZE,
                                FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited, OPEN_ALWAYS,
                                FILE_ATTRIBUTE_NORMAL, nullptr));
  if (!file) Die("CreateFile " + path);
  return file;
}

}  // namespace

Process Process::Spawn(const SpawnOptions& options) {
  std::string line;
  for (const std::string& word : options.arguments) line += (line.empty() ? "" : " ") + Quoted(word);
  std::string program = options.arguments.front();
  if (!program.ends_with(".exe")) program += ".exe";

  STARTUPINFOW start{};
  start.cb = sizeof start;
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdInput = ::GetStdHandle(STD_INPUT_HANDLE);
  start.hStdOutput = ::GetStdHandle(STD_OUTPUT_HANDLE);
  start.hStdError = ::GetStdHandle(STD_ERROR_HANDLE);
  os::Handle output;
  if (!options.output.empty()) {
    output = OutputFile(options.output);
    start.hStdOutput = start.hStdError = output.get();
  }
  std::vector<std::string> environment = options.environment;
  HANDLE given = nullptr;
  if (options.descriptor3 >= 0) {
    given = os::FindAs<os::FileObject>(options.descriptor3)->get();
    ::SetHandleInformation(given, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    environment.push_back(std::string(kDescriptor3) + "=" +
                          std::to_string(reinterpret_cast<std::uintptr_t>(given)));
  }
  std::wstring wide_line = os::WidePath(line), block = Environment(environment);
  PROCESS_INFORMATION started{};
  const bool ok = ::CreateProcessW(os::WidePath(program).c_str(), wide_line.data(), nullptr, nullptr, TRUE,
                                   CREATE_UNICODE_ENVIRONMENT | CREATE_SUSPENDED, block.data(), nullptr,
                                   &start, &started) != 0;
  if (!ok) Die("CreateProcess " + program);
  if (given != nullptr) ::SetHandleInformation(given, HANDLE_FLAG_INHERIT, 0);
  if (::AssignProcessToJobObject(Job(), started.hProcess) == 0) Die("AssignProcessToJobObject");
  ::ResumeThread(started.hThread);
  ::CloseHandle(started.hThread);
  Process process;
  process.pid_ = static_cast<pid_t>(started.dwProcessId);
  Children& children = Children::The();
  const std::lock_guard lock(children.mutex);
  children.handles[process.pid_] = os::Handle(started.hProcess);
  return process;
}

// The system runs the same function in a new thread of the process when its console has an event. A test
// has no console.
void Process::AskToEnd() const {
  const HANDLE process = Children::The().Find(pid_);
  if (process == nullptr) return;
  const auto run = reinterpret_cast<LPTHREAD_START_ROUTINE>(
      reinterpret_cast<void*>(::GetProcAddress(::GetModuleHandleW(L"kernelbase.dll"), "CtrlRoutine")));
  const os::Handle thread(::CreateRemoteThread(
      process, nullptr, 0, run, reinterpret_cast<void*>(std::uintptr_t{CTRL_BREAK_EVENT}), 0, nullptr));
  if (!thread) std::fprintf(stderr, "CreateRemoteThread: Windows error %lu\n", ::GetLastError());
}

void Process::Pause() const {
  ::NtSuspendProcess(Children::The().Find(pid_));
}

void Process::Resume() const {
  ::NtResumeProcess(Children::The().Find(pid_));
}

void Process::Kill() {
  if (pid_ <= 0 || status_) return;
  ::TerminateProcess(Children::The().Find(pid_), kKilled);
  while (!Wait(std::chrono::milliseconds(60'000))) {
  }
}

std::optional<int> Process::Wait(std::chrono::milliseconds timeout) {
  if (pid_ <= 0 || status_) return status_;
  Children& children = Children::The();
  const HANDLE process = children.Find(pid_);
  DWORD code = 0;
  if (::WaitForSingleObject(process, static_cast<DWORD>(Scaled(timeout).count())) != WAIT_OBJECT_0 ||
      ::GetExitCodeProcess(process, &code) == 0) {
    return status_;
  }
  status_ = static_cast<int>(code);
  const std::lock_guard lock(children.mutex);
  children.handles.erase(pid_);
  return status_;
}

// The exit code of a fault is the number of its exception, an error of NTSTATUS.
std::optional<int> ExitCode(int status) {
  return status >= 0 ? std::optional(status) : std::nullopt;
}

int FatalSignal(int status) {
  return status >= 0 ? 0 : status;
}

int OwnDescriptor3() {
  static const int number = [] {
    const char* const text = std::getenv(kDescriptor3);
    if (text == nullptr) return -1;
    const auto handle = reinterpret_cast<HANDLE>(std::strtoull(text, nullptr, 10));
    ::SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0);
    return os::PutObject(std::make_shared<os::FileObject>(os::Handle(handle)));
  }();
  return number;
}

bool HasFork() {
  return false;
}

void IgnoreBrokenStreams() {}
std::size_t AllowManyDescriptors() {
  return std::size_t{1} << 18;
}

std::string BinaryDirectory() {
  if (const char* given = std::getenv("NDBROKER_BIN")) return given;
  wchar_t path[32768];
  ::GetModuleFileNameW(nullptr, path, 32768);
  return std::filesystem::path(path).parent_path().string();
}

// With slashes, which a configuration does not have to escape.
std::string MakeTempDirectory(const std::string& prefix) {
  static int count = 0;
  std::error_code error;
  const std::filesystem::path base = std::filesystem::temp_directory_path(error);
  for (int i = 0; i < 1000; ++i) {
    const std::filesystem::path path =
        base / (prefix + std::to_string(::GetCurrentProcessId()) + "-" + std::to_string(++count));
    if (std::filesystem::create_directory(path, error)) return path.generic_string();
  }
  std::fprintf(stderr, "no directory below %s: %s\n", base.string().c_str(), error.message().c_str());
  std::abort();
}

void SetVariable(const char* name, const char* value) {
  ::_putenv_s(name, value == nullptr ? "" : value);
}

std::size_t CountDescriptors(pid_t pid) {
  const HANDLE child = Children::The().Find(pid);
  DWORD count = 0;
  const bool own = static_cast<DWORD>(pid) == ::GetCurrentProcessId();
  return ::GetProcessHandleCount(own ? ::GetCurrentProcess() : child, &count) != 0 ? count : 0;
}

}  // namespace nd::testing
