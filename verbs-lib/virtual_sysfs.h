// SPDX-License-Identifier: Apache-2.0
// The files about our devices below /sys/class/infiniband and /sys/class/infiniband_verbs, which some
// programs read beside calling libibverbs. They are real files in a folder of this user, made at the first
// look; every process of the user that sees the same devices shares them.
//
// Thread rule: any thread. Takes no lock and allocates nothing for other paths.
#pragma once

#include <array>
#include <cstddef>

namespace nd::verbs_lib {

// The path that a function of the C library should use in place of the program's.
class RealPath {
 public:
  // `path` may be null. A path that is not about our devices stays.
  explicit RealPath(const char* path) : path_(path) {
    if (path != nullptr && path[0] == '/' && (path[1] == 's' || path[1] == 'd')) Look();
  }
  const char* get() const { return path_; }

 private:
  void Look();

  const char* path_;
  std::array<char, 512> elsewhere_;  // A longer path stays.
};

}  // namespace nd::verbs_lib
