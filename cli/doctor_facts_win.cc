// SPDX-License-Identifier: Apache-2.0
// Collects the facts of this host. A fact that cannot be read stays unknown and is not an error.
#include "base/os/access_win.h"

#include <winsvc.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "base/locate.h"
#include "base/os/host.h"
#include "base/os/socket.h"
#include "cli/doctor_windows.h"

namespace nd::cli {
namespace {

constexpr wchar_t kService[] = L"ndbrokerd";
constexpr wchar_t kEventSource[] = L"SYSTEM\\CurrentControlSet\\Services\\EventLog\\Application\\ndbrokerd";

class ServiceHandle {
 public:
  explicit ServiceHandle(SC_HANDLE handle) : handle_(handle) {}
  ~ServiceHandle() {
    if (handle_ != nullptr) ::CloseServiceHandle(handle_);
  }
  ServiceHandle(const ServiceHandle&) = delete;
  ServiceHandle& operator=(const ServiceHandle&) = delete;
  SC_HANDLE get() const { return handle_; }

 private:
  SC_HANDLE handle_;
};

void LookAtDirectory(WindowsFacts* facts) {
  // Of the directory itself, also when it is a link.
  const os::Handle directory(
      ::CreateFileW(os::WidePath(facts->directory).c_str(), READ_CONTROL,
                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING,
                    FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, nullptr));
  const DWORD error = ::GetLastError();
  facts->directory_exists = directory || (error != ERROR_FILE_NOT_FOUND && error != ERROR_PATH_NOT_FOUND);
  os::FileAccess access;
  facts->access_known = directory && os::AccessOf(directory.get(), &access);
  facts->ours = access.ours;
  facts->others_read = access.others_read;
  facts->others_write = access.others_write;
}

SocketState StateOf(const std::string& path) {
  if (os::ConnectLocal(path, os::SocketKind::kMessages, std::chrono::seconds(1)))
    return SocketState::kAnswers;
  if (errno == EACCES || errno == EPERM) return SocketState::kForbidden;
  return errno == EAGAIN || errno == EINPROGRESS ? SocketState::kSilent : SocketState::kAbsent;
}

void LookAtService(WindowsFacts* facts) {
  const ServiceHandle manager(::OpenSCManagerW(nullptr, nullptr, SC_MANAGER_CONNECT));
  if (manager.get() == nullptr) return;
  const ServiceHandle service(
      ::OpenServiceW(manager.get(), kService, SERVICE_QUERY_STATUS | SERVICE_QUERY_CONFIG));
  if (service.get() == nullptr) {
    if (::GetLastError() == ERROR_SERVICE_DOES_NOT_EXIST) facts->service = ServiceState::kAbsent;
    return;
  }
  SERVICE_STATUS_PROCESS status{};
  DWORD size = 0;
  if (::QueryServiceStatusEx(service.get(), SC_STATUS_PROCESS_INFO, reinterpret_cast<BYTE*>(&status),
                             sizeof(status), &size) == 0) {
    return;
  }
  facts->service = status.dwCurrentState == SERVICE_RUNNING ? ServiceState::kRunning : ServiceState::kStopped;
  facts->service_pid = status.dwProcessId;
  ::QueryServiceConfigW(service.get(), nullptr, 0, &size);
  std::vector<std::byte> bytes(size);
  auto* config = reinterpret_cast<QUERY_SERVICE_CONFIGW*>(bytes.data());
  facts->service_automatic = size != 0 && ::QueryServiceConfigW(service.get(), config, size, &size) != 0 &&
                             config->dwStartType == SERVICE_AUTO_START;
}

bool EventSourceExists() {
  HKEY key = nullptr;
  if (::RegOpenKeyExW(HKEY_LOCAL_MACHINE, kEventSource, 0, KEY_QUERY_VALUE, &key) != ERROR_SUCCESS)
    return false;
  ::RegCloseKey(key);
  return true;
}

}  // namespace

std::vector<Verdict> ExamineHost(const std::string& directory, const BrokerFacts& broker) {
  WindowsFacts facts;
  facts.directory = directory;
  LookAtDirectory(&facts);
  facts.lane.path = ClientSocketPath(directory, kLaneSocketName);
  facts.lane.state = StateOf(facts.lane.path);
  LookAtService(&facts);
  facts.event_source = EventSourceExists();
  return JudgeWindows(facts, broker);
}

std::string DescribeHost() {
  std::string text = os::SystemName() + "\n";
  MEMORYSTATUSEX memory{};
  memory.dwLength = sizeof(memory);
  if (::GlobalMemoryStatusEx(&memory) != 0) {
    text += "memory: " + std::to_string(memory.ullAvailPhys) + " of " + std::to_string(memory.ullTotalPhys) +
            " bytes free\npaging: " + std::to_string(memory.ullAvailPageFile) + " of " +
            std::to_string(memory.ullTotalPageFile) + " bytes free\n";
  }
  return text;
}

}  // namespace nd::cli
