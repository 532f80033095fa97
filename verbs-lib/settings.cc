// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/settings.h"

#include <cstdio>
#include <string_view>

#include "base/environment.h"

namespace nd::verbs_lib {
namespace {

Settings Read() {
  Settings settings;
  const char* as = EnvironmentVariable("NDBROKER_VERBS_AS");
  const std::string_view name = as == nullptr ? "" : as;
  if (name == "iwarp") {
    settings.personality = Personality::kIwarp;
  } else if (!name.empty() && name != "roce") {
    std::fprintf(stderr, "ndbroker: NDBROKER_VERBS_AS is '%s'; expected roce or iwarp; using roce\n", as);
  }
  if (const char* adapter = EnvironmentVariable("NDBROKER_VERBS_ADAPTER")) settings.adapter = adapter;
  if (const char* spin = EnvironmentVariable("NDBROKER_VERBS_SPIN")) {
    const std::string_view value = spin;
    settings.spin = value == "1";
    if (!settings.spin && value != "0" && !value.empty()) {
      std::fprintf(stderr, "ndbroker: NDBROKER_VERBS_SPIN is '%s'; expected 0 or 1; using 0\n", spin);
    }
  }
  return settings;
}

}  // namespace

const Settings& GetSettings() {
  // Never destroyed, because destructors of the program may still use RDMA.
  static const auto* settings = new Settings(Read());
  return *settings;
}

}  // namespace nd::verbs_lib
