// SPDX-License-Identifier: Apache-2.0
// The service control manager is told the state. It reads no text, watches no thread and keeps no descriptor,
// so that it does not count as present.
#include "base/os/service_manager.h"

#include "base/os/service_control_win.h"

namespace nd::os {

Result<ServiceManager> ServiceManager::FromEnvironment() {
  return ServiceManager();
}

void ServiceManager::Ready(std::string_view) const {
  service::Report(service::State::kRunning);
}

void ServiceManager::Status(std::string_view) const {}

void ServiceManager::Reloading(std::string_view) const {}

void ServiceManager::Stopping(std::string_view) const {
  service::Report(service::State::kStopping);
}

void ServiceManager::Alive() const {}

bool ServiceManager::Store(const std::string&, int) const {
  return false;
}

void ServiceManager::Unstore(const std::string&) const {}

}  // namespace nd::os
