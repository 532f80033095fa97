// SPDX-License-Identifier: Apache-2.0
// What `ndctl run` passes to this library through the environment.
#pragma once

#include <string>
#include <string_view>

namespace nd::verbs_lib {

// How devices describe themselves. Some programs accept only one kind.
enum class Personality { kRoce, kIwarp };

struct Settings {
  Personality personality = Personality::kRoce;  // NDBROKER_VERBS_AS: "roce" or "iwarp".
  std::string adapter;                           // NDBROKER_VERBS_ADAPTER: shows only this adapter.
  bool spin = false;                             // NDBROKER_VERBS_SPIN=1: a thread polls.
  bool share_all = false;  // NDBROKER_VERBS_SHARE_MEMORY=all: buffers of malloc() are shared, too.
};

// Read once, at the first use of RDMA. A value that is not understood ends in a line on stderr and the
// default.
const Settings& GetSettings();

// The name of a program as OpenOptions::application takes it: 64 characters at most, with '_' in the place of
// others than letters, digits and "._-". Empty for an empty name.
std::string ApplicationName(std::string_view program);

inline bool ActsAsIwarp() {
  return GetSettings().personality == Personality::kIwarp;
}

}  // namespace nd::verbs_lib
