// SPDX-License-Identifier: Apache-2.0
#include "base/os/service_control_win.h"

#include <windows.h>

#include <cerrno>
#include <cstddef>
#include <cwchar>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/os/object_win.h"
#include "base/os/requests_win.h"

namespace nd::os::service {
namespace {

constexpr DWORD kWaitHint = 30'000;  // Milliseconds that a start or a stop may take.
constexpr DWORD kStatePatience = 2 * kWaitHint;
constexpr DWORD kStopPatience = 10'000;

struct CloseService {
  using pointer = SC_HANDLE;
  void operator()(SC_HANDLE handle) const { ::CloseServiceHandle(handle); }
};
using ServiceHandle = std::unique_ptr<SC_HANDLE, CloseService>;

Status Failed(const std::string& doing, DWORD error = ::GetLastError()) {
  SetErrno(error);
  const std::string text = doing + ": Windows error " + std::to_string(error);
  switch (error) {
    case ERROR_ACCESS_DENIED:
      return {StatusCode::kAccessDenied, text + "; an administrator may do that", Detail::kNone, errno};
    case ERROR_SERVICE_EXISTS:
      return {StatusCode::kAddressAlreadyExists, "the service is installed already", Detail::kNone, errno};
    case ERROR_SERVICE_MARKED_FOR_DELETE:
      return {StatusCode::kDeviceBusy, "the service is being removed; close the programs that show it",
              Detail::kNone, errno};
    case ERROR_SERVICE_DOES_NOT_EXIST:
      return {StatusCode::kInvalidHandle, "the service is not installed", Detail::kNone, errno};
    default:
      return {StatusCode::kUnsuccessful, text, Detail::kNone, errno};
  }
}

ServiceHandle OpenManager(DWORD access) {
  return ServiceHandle(::OpenSCManagerW(nullptr, nullptr, access));
}

Result<ServiceHandle> Open(const std::wstring& name, DWORD access) {
  const ServiceHandle manager = OpenManager(SC_MANAGER_CONNECT);
  if (!manager) return Failed("the service control manager does not answer");
  ServiceHandle service(::OpenServiceW(manager.get(), name.c_str(), access | SERVICE_QUERY_STATUS));
  if (!service) return Failed("the service cannot be opened");
  return service;
}

// Waits while the service is in the state `pending`. False: the manager does not say, or it takes too long.
bool WaitWhile(SC_HANDLE service, DWORD pending, SERVICE_STATUS* status) {
  for (DWORD waited = 0; waited <= kStatePatience; waited += 50) {
    if (::QueryServiceStatus(service, status) == 0) return false;
    if (status->dwCurrentState != pending) return true;
    ::Sleep(50);
  }
  return false;
}

// The process of the service.
struct Process {
  DWORD id = 0;   // 0: the service has none.
  Handle handle;  // For a wait; empty: there is none, or this user may not wait for it.
};

Process ProcessOf(SC_HANDLE service) {
  SERVICE_STATUS_PROCESS status{};
  DWORD needed = 0;
  if (::QueryServiceStatusEx(service, SC_STATUS_PROCESS_INFO, reinterpret_cast<BYTE*>(&status), sizeof status,
                             &needed) == 0 ||
      status.dwProcessId == 0) {
    return {};
  }
  return {status.dwProcessId, Handle(::OpenProcess(SYNCHRONIZE, FALSE, status.dwProcessId))};
}

Status TooLate(const std::string& what, DWORD milliseconds, const Process& process) {
  std::string text = what + " within " + std::to_string(milliseconds / 1000) + " seconds";
  if (process.id != 0) {
    const std::string id = std::to_string(process.id);
    text += "; end its process " + id + " with `taskkill /f /pid " + id + "`";
  }
  return {StatusCode::kIoTimeout, text};
}

// The process ends some time after it has reported its stop, and only then nobody has its program open.
Status StopAndWait(SC_HANDLE service) {
  const Process process = ProcessOf(service);
  SERVICE_STATUS status{};
  if (::ControlService(service, SERVICE_CONTROL_STOP, &status) == 0) {
    const DWORD error = ::GetLastError();
    return error == ERROR_SERVICE_NOT_ACTIVE ? Status::Ok() : Failed("the service cannot be stopped", error);
  }
  if (!WaitWhile(service, SERVICE_STOP_PENDING, &status) || status.dwCurrentState != SERVICE_STOPPED) {
    return TooLate("the service has not stopped", kStatePatience, process);
  }
  if (process.handle && ::WaitForSingleObject(process.handle.get(), kWaitHint) == WAIT_TIMEOUT) {
    return TooLate("the service has stopped, and its process has not ended", kWaitHint, process);
  }
  return Status::Ok();
}

// The service of this process. Written before its first thread but the one of the dispatcher.
struct Running {
  std::wstring name;
  std::function<int()> program;
  std::mutex mutex;
  SERVICE_STATUS_HANDLE handle = nullptr;
  SERVICE_STATUS status{SERVICE_WIN32_OWN_PROCESS, SERVICE_START_PENDING, 0, NO_ERROR, 0, 0, kWaitHint};

  static Running& The() {
    static auto* const running = new Running;
    return *running;
  }

  void Tell(DWORD state, DWORD accepted, int code = 0) {
    const std::lock_guard lock(mutex);
    if (handle == nullptr) return;
    const bool pending = state == SERVICE_START_PENDING || state == SERVICE_STOP_PENDING;
    status.dwCheckPoint = pending ? status.dwCheckPoint + 1 : 0;
    status.dwCurrentState = state;
    status.dwControlsAccepted = accepted;
    status.dwWin32ExitCode = code == 0 ? NO_ERROR : ERROR_SERVICE_SPECIFIC_ERROR;
    status.dwServiceSpecificExitCode = static_cast<DWORD>(code);
    ::SetServiceStatus(handle, &status);
  }
};

// A stop that takes longer is cut. The next broker has what it needs, as after every sudden end.
DWORD WINAPI CutStop(void*) {
  ::Sleep(kStopPatience);
  Running::The().Tell(SERVICE_STOPPED, 0);
  return ::TerminateProcess(::GetCurrentProcess(), 0) != 0 ? 0 : 1;
}

DWORD WINAPI OnControl(DWORD control, DWORD, void*, void*) {
  switch (control) {
    case SERVICE_CONTROL_STOP:
    case SERVICE_CONTROL_PRESHUTDOWN:
    case SERVICE_CONTROL_SHUTDOWN:
      Report(State::kStopping);
      Arrive(Request::kTerminate);
      return NO_ERROR;
    case SERVICE_CONTROL_PARAMCHANGE:
      Arrive(Request::kReload);
      return NO_ERROR;
    case SERVICE_CONTROL_INTERROGATE:
      return NO_ERROR;
    default:
      return ERROR_CALL_NOT_IMPLEMENTED;
  }
}

void WINAPI ServiceMain(DWORD, wchar_t**) {
  Running& running = Running::The();
  running.handle = ::RegisterServiceCtrlHandlerExW(running.name.c_str(), OnControl, nullptr);
  if (running.handle == nullptr) return;
  Report(State::kStarting);
  const int code = running.program();
  running.Tell(SERVICE_STOPPED, 0, code);
  // At once: an installer replaces the program's file now, and the end of libraries can take long.
  ::TerminateProcess(::GetCurrentProcess(), static_cast<UINT>(code));
}

const wchar_t kSources[] = L"SYSTEM\\CurrentControlSet\\Services\\EventLog\\Application\\";

// The event viewer takes the texts of events from this program.
LSTATUS RegisterEvents(const std::wstring& name, const wchar_t* program) {
  const std::wstring key = kSources + name;
  const DWORD types = EVENTLOG_ERROR_TYPE | EVENTLOG_WARNING_TYPE | EVENTLOG_INFORMATION_TYPE;
  const LSTATUS made =
      ::RegSetKeyValueW(HKEY_LOCAL_MACHINE, key.c_str(), L"EventMessageFile", REG_EXPAND_SZ, program,
                        static_cast<DWORD>((std::wcslen(program) + 1) * sizeof(wchar_t)));
  if (made != ERROR_SUCCESS) return made;
  return ::RegSetKeyValueW(HKEY_LOCAL_MACHINE, key.c_str(), L"TypesSupported", REG_DWORD, &types,
                           sizeof types);
}

Status ThisProgram(std::wstring* path) {
  wchar_t program[MAX_PATH];
  const DWORD length = ::GetModuleFileNameW(nullptr, program, MAX_PATH);
  if (length == 0 || length == MAX_PATH) return Failed("the path of this program is too long");
  *path = program;
  return Status::Ok();
}

// Puts the path of the program between quotation marks: with a blank in the path the system would try
// programs at shorter paths first. False: the manager refused it.
bool QuoteProgram(SC_HANDLE service, const std::wstring& program) {
  alignas(QUERY_SERVICE_CONFIGW) std::byte buffer[8192];  // The most that the manager gives.
  auto* const config = reinterpret_cast<QUERY_SERVICE_CONFIGW*>(buffer);
  DWORD needed = 0;
  if (::QueryServiceConfigW(service, config, sizeof buffer, &needed) == 0) return false;
  const std::wstring_view command = config->lpBinaryPathName;
  if (!command.starts_with(program)) return true;
  const std::wstring quoted = L"\"" + program + L"\"" + std::wstring(command.substr(program.size()));
  return ::ChangeServiceConfigW(service, SERVICE_NO_CHANGE, SERVICE_NO_CHANGE, SERVICE_NO_CHANGE,
                                quoted.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) != 0;
}

}  // namespace

Status Install(const Facts& facts, const std::wstring& arguments) {
  std::wstring program;
  if (Status status = ThisProgram(&program); !status.ok()) return status;
  const std::wstring command =
      L"\"" + program + L"\" --service run" + (arguments.empty() ? L"" : L" " + arguments);
  {
    const ServiceHandle manager = OpenManager(SC_MANAGER_CONNECT | SC_MANAGER_CREATE_SERVICE);
    if (!manager) return Failed("the service control manager does not answer");
    const ServiceHandle service(::CreateServiceW(manager.get(), facts.name.c_str(), facts.title.c_str(),
                                                 SERVICE_ALL_ACCESS, SERVICE_WIN32_OWN_PROCESS,
                                                 SERVICE_AUTO_START, SERVICE_ERROR_NORMAL, command.c_str(),
                                                 nullptr, nullptr, L"Tcpip\0", nullptr, nullptr));
    if (!service) return Failed("the service cannot be installed");
  }
  return Configure(facts);
}

Status Configure(const Facts& facts) {
  std::wstring program;
  if (Status status = ThisProgram(&program); !status.ok()) return status;
  // To set a restart as the action after a failure takes the right to start the service.
  const Result<ServiceHandle> service =
      Open(facts.name, SERVICE_QUERY_CONFIG | SERVICE_CHANGE_CONFIG | SERVICE_START);
  if (!service.ok()) return service.status();
  SERVICE_DESCRIPTIONW description{const_cast<wchar_t*>(facts.description.c_str())};
  SC_ACTION actions[] = {{SC_ACTION_RESTART, 100}, {SC_ACTION_RESTART, 1000}, {SC_ACTION_RESTART, 10'000}};
  SERVICE_FAILURE_ACTIONSW failure{/*dwResetPeriod=*/3600, nullptr, nullptr, 3, actions};
  SERVICE_FAILURE_ACTIONS_FLAG also_by_exit_code{TRUE};
  SERVICE_DELAYED_AUTO_START_INFO delayed{TRUE};
  SERVICE_PRESHUTDOWN_INFO shutdown{kWaitHint};
  const std::pair<DWORD, void*> settings[] = {{SERVICE_CONFIG_DESCRIPTION, &description},
                                              {SERVICE_CONFIG_FAILURE_ACTIONS, &failure},
                                              {SERVICE_CONFIG_FAILURE_ACTIONS_FLAG, &also_by_exit_code},
                                              {SERVICE_CONFIG_DELAYED_AUTO_START_INFO, &delayed},
                                              {SERVICE_CONFIG_PRESHUTDOWN_INFO, &shutdown}};
  std::string refused;
  for (const auto& [kind, value] : settings) {
    if (::ChangeServiceConfig2W(service->get(), kind, value) == 0) refused += " " + std::to_string(kind);
  }
  if (!QuoteProgram(service->get(), program)) refused += " path of the program";
  if (RegisterEvents(facts.name, program.c_str()) != ERROR_SUCCESS) refused += " event source";
  if (refused.empty()) return Status::Ok();
  return {StatusCode::kSuccess,
          "the system refused these settings of the service (a number is one of ChangeServiceConfig2):" +
              refused};
}

Status Uninstall(const std::wstring& name) {
  const Result<ServiceHandle> service = Open(name, SERVICE_STOP | DELETE);
  if (!service.ok()) return service.status();
  if (Status status = StopAndWait(service->get()); !status.ok()) return status;
  ::RegDeleteKeyW(HKEY_LOCAL_MACHINE, (kSources + name).c_str());
  return ::DeleteService(service->get()) != 0 ? Status::Ok() : Failed("the service cannot be removed");
}

Status Start(const std::wstring& name) {
  const Result<ServiceHandle> service = Open(name, SERVICE_START);
  if (!service.ok()) return service.status();
  if (::StartServiceW(service->get(), 0, nullptr) == 0) {
    const DWORD error = ::GetLastError();
    return error == ERROR_SERVICE_ALREADY_RUNNING ? Status::Ok()
                                                  : Failed("the service cannot be started", error);
  }
  SERVICE_STATUS status{};
  if (!WaitWhile(service->get(), SERVICE_START_PENDING, &status)) {
    return {StatusCode::kIoTimeout, "the service does not become ready"};
  }
  if (status.dwCurrentState == SERVICE_RUNNING) return Status::Ok();
  return {StatusCode::kDeviceNotReady, "the service ended with exit code " +
                                           std::to_string(status.dwServiceSpecificExitCode) +
                                           " (Windows error " + std::to_string(status.dwWin32ExitCode) + ")"};
}

Status Stop(const std::wstring& name) {
  const Result<ServiceHandle> service = Open(name, SERVICE_STOP);
  return service.ok() ? StopAndWait(service->get()) : service.status();
}

Status Run(const std::wstring& name, std::function<int()> program) {
  Running& running = Running::The();
  running.name = name;
  running.program = std::move(program);
  const SERVICE_TABLE_ENTRYW services[] = {{running.name.data(), ServiceMain}, {nullptr, nullptr}};
  ::StartServiceCtrlDispatcherW(services);
  const DWORD error = ::GetLastError();
  if (error != ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) return Failed("the service cannot run", error);
  return {StatusCode::kInvalidDeviceRequest, "the service control manager did not start this process"};
}

void Report(State state) {
  Running& running = Running::The();
  switch (state) {
    case State::kStarting:
      return running.Tell(SERVICE_START_PENDING, 0);
    case State::kRunning:
      return running.Tell(SERVICE_RUNNING,
                          SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_PRESHUTDOWN | SERVICE_ACCEPT_PARAMCHANGE);
    case State::kStopping: {
      static std::once_flag cut;
      std::call_once(cut,
                     [] { const Handle thread(::CreateThread(nullptr, 0, CutStop, nullptr, 0, nullptr)); });
      return running.Tell(SERVICE_STOP_PENDING, 0);
    }
  }
}

bool IsThisProcess() {
  return Running::The().handle != nullptr;
}

}  // namespace nd::os::service
