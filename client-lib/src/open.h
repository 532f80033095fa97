// SPDX-License-Identifier: Apache-2.0
// Opens an adapter with another environment than the broker and the providers of this host, for tests.
#pragma once

#include <functional>
#include <memory>

#include "client-lib/src/session.h"
#include "nd/adapter.h"
#include "provider/qp.h"

namespace nd::client {

struct Environment {
  std::function<Result<Channel>()> connect;
  std::function<Result<std::shared_ptr<provider::Device>>(const AdapterInfo& info)> open_device;
  Duration first_backoff{};  // Zero: the session's default.
};

// Statuses as Adapter::Open(). A session without an adapter serves queries that need none.
Result<std::shared_ptr<Session>> OpenSession(const OpenOptions& options, const Environment& environment,
                                             bool open_adapter);
Result<Adapter> OpenAdapter(const OpenOptions& options, const Environment& environment);

}  // namespace nd::client
