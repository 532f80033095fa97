// SPDX-License-Identifier: Apache-2.0
// The entry points of the core: they open an adapter, or ask the broker without one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client-lib/core/adapter.h"
#include "client-lib/core/broker_session.h"
#include "client-lib/core/handle.h"
#include "provider/qp.h"

namespace nd::client {

// The sources of sessions and devices; replaced in tests.
struct Environment {
  std::function<Result<Channel>()> connect;
  std::function<Result<std::shared_ptr<provider::Device>>(const AdapterInfo& info)> open_device;
  Duration first_backoff{};  // Zero: the session's default.
};

// The broker of this host and the providers of this build. `broker`: the directory of its sockets; empty: the
// one that base/locate.h finds.
Environment HostEnvironment(const std::string& broker, bool progress_thread);

// DEVICE_NOT_READY, ACCESS_DENIED, INVALID_PARAMETER, INSUFFICIENT_RESOURCES. `options` need no `connect`.
Result<AppHandle<LocalAdapter>> OpenAdapter(SessionOptions options, const Environment& environment);
Result<std::vector<AdapterInfo>> ListAdapters(SessionOptions options, const Environment& environment);

}  // namespace nd::client
