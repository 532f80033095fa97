// SPDX-License-Identifier: Apache-2.0
// One opened adapter of Network Direct. Every object made from it shares it.
#pragma once

#include <memory>

#include "nd/types.h"
#include "provider/networkdirect/qp/connections_win.h"
#include "provider/networkdirect/qp/engine_win.h"

namespace nd::provider::networkdirect {

struct Context {
  // The statuses of the adapter.
  static Result<std::shared_ptr<Context>> Make(Com<spi::IND2Adapter> adapter, const AdapterInfo& info);
  ~Context();

  Com<spi::IND2Adapter> adapter;
  HANDLE file = nullptr;  // Of CreateOverlappedFile().
  AdapterInfo info;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Connections> connections;
};

}  // namespace nd::provider::networkdirect
