// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/settings.h"

#include <cstdio>

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
  if (const char* share = EnvironmentVariable("NDBROKER_VERBS_SHARE_MEMORY")) {
    const std::string_view value = share;
    settings.share_all = value == "all";
    if (!settings.share_all && !value.empty()) {
      std::fprintf(stderr, "ndbroker: NDBROKER_VERBS_SHARE_MEMORY is '%s'; expected all or nothing\n", share);
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

std::string ApplicationName(std::string_view program) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  std::string name(program.substr(0, kLongest));
  for (char& letter : name) {
    if (kAllowed.find(letter) == kAllowed.npos) letter = '_';
  }
  return name;
}

}  // namespace nd::verbs_lib
