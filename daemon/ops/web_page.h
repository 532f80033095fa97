// SPDX-License-Identifier: Apache-2.0
// The broker's own page (daemon/ops/web) as it was when this was built. Any thread.
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
