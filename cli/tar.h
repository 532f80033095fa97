// SPDX-License-Identifier: Apache-2.0
// A tar archive (POSIX ustar) of small files, in memory.
//
// Pure; any thread. Names are at most 100 bytes and contents below 8 GiB: larger values are a bug of the
// caller.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace nd::cli {

struct ArchiveFile {
  std::string name;  // "bundle/status.json"
  std::string content;
};

// All files belong to root, mode 0644, with the time `when`.
std::string Tar(const std::vector<ArchiveFile>& files, std::time_t when);

// gzip of `data`; empty when zlib has no memory.
std::string Gzip(std::string_view data);

}  // namespace nd::cli
