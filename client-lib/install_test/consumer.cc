// SPDX-License-Identifier: Apache-2.0
// An application that knows nothing but the installed package.
#include <nd/nd.h>

#include <cstdio>

int main() {
  auto adapter = nd::Adapter::Open({.broker = "/nonexistent"});
  std::printf("%s\n", adapter.status().ToString().c_str());
  return adapter.code() == nd::StatusCode::kDeviceNotReady ? 0 : 1;
}
