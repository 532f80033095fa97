// SPDX-License-Identifier: Apache-2.0
// Memory windows of both types.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "nd/nd.h"
#include "verbs-lib/holds.h"

namespace nd::verbs_lib {

// Programs hold a pointer to `abi`.
struct Window {
  ibv_mw abi{};
  MemoryWindow window;
  Hold domain;
};

inline Window* FromAbi(ibv_mw* window) {
  return reinterpret_cast<Window*>(window);
}

ibv_mw* AllocWindow(ibv_pd* domain, ibv_mw_type type);
int DeallocWindow(ibv_mw* window);
// Of type 1: posts the bind and gives the window its next key.
int BindWindow(ibv_qp* queue_pair, ibv_mw* window, ibv_mw_bind* bind);

// Posts `request`, an IBV_WR_BIND_MW, for a window of either type. 0 or an errno; *status of the library when
// the request was judged there.
int PostBind(nd::QueuePair& real, const ibv_qp& queue_pair, const ibv_send_wr& request, std::uint32_t flags,
             Status* status);

}  // namespace nd::verbs_lib
