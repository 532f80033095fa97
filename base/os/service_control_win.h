// SPDX-License-Identifier: Apache-2.0
// The service control manager of Windows: the registration of a service, and the process that it starts.
//
// Install() to Stop(): any thread; each waits until the manager has done it. Run(): once, on the first thread
// of the process. Report() and IsThisProcess(): any thread.
#pragma once

#include <functional>
#include <string>

#include "nd/status.h"

namespace nd::os::service {

struct Facts {
  std::wstring name, title, description;
};

// Registers this program with the arguments "--service run" and `arguments`, and configures the service.
// ADDRESS_ALREADY_EXISTS: it is registered. ACCESS_DENIED.
Status Install(const Facts& facts, const std::wstring& arguments);
// The service starts with the system, delayed, and again when it ended unexpectedly; this program becomes a
// source of events. SUCCESS with a message that names the settings that the system refused.
// INVALID_HANDLE: the service is not registered. ACCESS_DENIED.
Status Configure(const Facts& facts);
// Stops it first; when that fails, the service stays. INVALID_HANDLE: it is not registered.
Status Uninstall(const std::wstring& name);
// DEVICE_NOT_READY: it did not start, or ended; the message has its exit code.
Status Start(const std::wstring& name);
// SUCCESS: its process has ended, or this user may not wait for it, or the service did not run. IO_TIMEOUT:
// the process is still there; the message names it.
Status Stop(const std::wstring& name);

// Runs `program` as the service; the manager stops it by a request (requests.h). The process ends with the
// exit code of the program. Returns only a failure. INVALID_DEVICE_REQUEST: the manager did not start this
// process.
Status Run(const std::wstring& name, std::function<int()> program);

enum class State { kStarting, kRunning, kStopping };
// In a process that is no service only kStopping has an effect: a process that does not end within ten
// seconds after it is ended.
void Report(State state);
// Whether the service control manager started this process.
bool IsThisProcess();

}  // namespace nd::os::service
