// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "daemon/server/late_services.h"

namespace nd::service {

Result<std::unique_ptr<LateServices>> LoadLateServices(const ServicesHost& host, Records& records) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string file =
      (program.parent_path() / "../lib/ndbroker/ndbrokerd-services.so").lexically_normal().string();
  const auto bad = [&file](const std::string& why) {
    return Status(
        StatusCode::kUnsuccessful,
        "cannot load " + file + ": " + why + "; it comes with ndbrokerd: install the package ndbroker again");
  };
  // Never unloaded: threads of gRPC outlive its servers.
  void* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return bad(::dlerror());
  const auto* const entry = static_cast<const LateEntry*>(::dlsym(module, kLateEntryName));
  if (entry == nullptr) return bad("it has no " + std::string(kLateEntryName));
  if (entry->version != std::string(NDBROKER_VERSION)) {
    return bad("it has version " + std::string(entry->version) + " and ndbrokerd has " + NDBROKER_VERSION);
  }
  return entry->make(host, records);
}

}  // namespace nd::service
