// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/cm/prober_win.h"

#include <winsock2.h>

#include <windows.h>

#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/os/access_win.h"
#include "base/os/object_win.h"
#include "provider/networkdirect/cm/probe_output.h"

namespace nd::provider::networkdirect {
namespace {

std::wstring OwnDirectory() {
  std::vector<wchar_t> path(32768);
  const DWORD length = ::GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size()));
  return std::filesystem::path(std::wstring(path.data(), length)).parent_path().wstring();
}

std::wstring HexOf(const ClassId& id) {
  std::wstring text;
  for (const std::uint8_t byte : id) {
    wchar_t digits[3];
    std::swprintf(digits, 3, L"%02x", byte);
    text += digits;
  }
  return text;
}

Status CannotStart(const char* what) {
  return {StatusCode::kDeviceNotReady, std::string("the probe of the adapters cannot be started (") + what +
                                           ", error " + std::to_string(::GetLastError()) +
                                           "); ndbroker-ndprobe.exe belongs beside ndbrokerd.exe"};
}

std::string ReadAll(HANDLE pipe) {
  constexpr std::size_t kMost = 1 << 20;
  std::string text;
  std::array<char, 4096> buffer;
  DWORD got = 0;
  while (text.size() < kMost && ::ReadFile(pipe, buffer.data(), buffer.size(), &got, nullptr) != FALSE &&
         got != 0)
    text.append(buffer.data(), got);
  return text;
}

}  // namespace

Result<std::vector<AdapterInfo>> Probe(const CatalogueEntry& entry, std::chrono::milliseconds patience) {
  SECURITY_ATTRIBUTES inherited{sizeof inherited, nullptr, TRUE};
  HANDLE ends[2];
  if (::CreatePipe(&ends[0], &ends[1], &inherited, 0) == FALSE) return CannotStart("no pipe");
  const os::Handle reader(ends[0]);
  os::Handle writer(ends[1]);
  ::SetHandleInformation(reader.get(), HANDLE_FLAG_INHERIT, 0);
  // The probe ends with the broker, whatever the DLL does.
  const os::Handle job(::CreateJobObjectW(nullptr, nullptr));
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  ::SetInformationJobObject(job.get(), JobObjectExtendedLimitInformation, &limits, sizeof limits);
  // Only the pipe is inherited, because the broker has other handles that could be.
  HANDLE passed[] = {writer.get()};
  SIZE_T size = 0;
  ::InitializeProcThreadAttributeList(nullptr, 1, 0, &size);
  std::vector<std::byte> memory(size);
  auto* const attributes = reinterpret_cast<PPROC_THREAD_ATTRIBUTE_LIST>(memory.data());
  if (::InitializeProcThreadAttributeList(attributes, 1, 0, &size) == FALSE ||
      ::UpdateProcThreadAttribute(attributes, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, passed, sizeof passed,
                                  nullptr, nullptr) == FALSE) {
    return CannotStart("no attributes");
  }
  STARTUPINFOEXW start{};
  start.StartupInfo.cb = sizeof start;
  start.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  start.StartupInfo.hStdOutput = writer.get();
  start.lpAttributeList = attributes;
  const std::wstring program = OwnDirectory() + L"\\ndbroker-ndprobe.exe";
  std::wstring line = L"\"" + program + L"\" \"" + os::WidePath(entry.dll) + L"\" " + HexOf(entry.class_id);
  PROCESS_INFORMATION made{};
  const BOOL started = ::CreateProcessW(program.c_str(), line.data(), nullptr, nullptr, TRUE,
                                        CREATE_SUSPENDED | CREATE_NO_WINDOW | EXTENDED_STARTUPINFO_PRESENT,
                                        nullptr, nullptr, &start.StartupInfo, &made);
  ::DeleteProcThreadAttributeList(attributes);
  if (started == FALSE) return CannotStart("no process");
  const os::Handle process(made.hProcess), thread(made.hThread);
  ::AssignProcessToJobObject(job.get(), process.get());
  ::ResumeThread(thread.get());
  writer = os::Handle();
  std::string text;
  std::thread reading([&] { text = ReadAll(reader.get()); });
  const bool late =
      ::WaitForSingleObject(process.get(), static_cast<DWORD>(patience.count())) != WAIT_OBJECT_0;
  if (late) ::TerminateProcess(process.get(), 1);
  ::WaitForSingleObject(process.get(), INFINITE);
  reading.join();
  DWORD code = 0;
  ::GetExitCodeProcess(process.get(), &code);
  if (late) {
    return Status{StatusCode::kIoTimeout, entry.dll + " did not tell its adapters within " +
                                              std::to_string(patience.count() / 1000) + " seconds"};
  }
  auto adapters = ReadProbe(text, code);
  if (adapters.ok() || adapters.status().message().starts_with(entry.dll)) return adapters;
  return Status{adapters.code(), entry.dll + ": " + adapters.status().message()};
}

}  // namespace nd::provider::networkdirect
