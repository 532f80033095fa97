// SPDX-License-Identifier: Apache-2.0
// The web page of the broker (daemon/metrics/web) as of the build. Any thread.
#pragma once

#include <span>
#include <string_view>

namespace nd::ops {

struct WebFile {
  const char* path;  // "/", "/page.js"
  const char* type;
  std::string_view content;
};
std::span<const WebFile> WebFiles();

}  // namespace nd::ops
