// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/window.h"

#include <cerrno>

#include "verbs-lib/device.h"
#include "verbs-lib/domains.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/memory.h"
#include "verbs-lib/queue_pair.h"

namespace nd::verbs_lib {
namespace {

// A queue pair ignores a local right.
constexpr unsigned kWindowAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// 0 or an errno: whether the program may ask for this bind at all. The library judges the rest in its turn.
int CheckBind(const ibv_qp& queue_pair, const ibv_mw& window, const ibv_mw_bind_info& info) {
  if ((info.mw_access_flags & ~kWindowAccess) != 0) return EINVAL;
  if (NumberOf(window.pd) != NumberOf(queue_pair.pd)) return EPERM;
  if (info.mr == nullptr || info.length == 0) return window.type == IBV_MW_TYPE_1 ? 0 : EINVAL;
  if (NumberOf(info.mr->pd) != NumberOf(window.pd)) return EPERM;
  return (FromAbi(info.mr)->access & IBV_ACCESS_MW_BIND) != 0 ? 0 : EINVAL;
}

}  // namespace

ibv_mw* AllocWindow(ibv_pd* domain, ibv_mw_type type) {
  if (RefuseInForkedChild()) return nullptr;
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return FailWith(EINVAL);
  auto made =
      FromAbi(domain->context)
          ->device->adapter()
          ->CreateMemoryWindow(type == IBV_MW_TYPE_1 ? WindowKind::kVerbsType1 : WindowKind::kVerbsType2);
  if (!made.ok()) return FailWith(ErrnoOf(made.status()));
  auto* window = new Window;
  window->window = std::move(made).value();
  window->abi.context = domain->context;
  window->abi.pd = domain;
  window->domain = HoldOf(domain);
  window->abi.type = type;
  window->abi.handle = window->abi.rkey = window->window.remote_token();
  return &window->abi;
}

int DeallocWindow(ibv_mw* abi) {
  if (InForkedChild()) return 0;
  delete FromAbi(abi);
  return 0;
}

int PostBind(nd::QueuePair& real, const ibv_qp& queue_pair, const ibv_send_wr& request, std::uint32_t flags,
             Status* status) {
  const ibv_mw_bind_info& info = request.bind_mw.bind_info;
  if (request.bind_mw.mw == nullptr) return EINVAL;
  Window* window = FromAbi(request.bind_mw.mw);
  if (const int error = CheckBind(queue_pair, window->abi, info)) return error;
  const bool ends = info.mr == nullptr || info.length == 0;
  *status = real.BindVerbsWindow(ContextOf(request.wr_id), ends ? nullptr : &FromAbi(info.mr)->region,
                                 window->window,
                                 {.address = info.addr,
                                  .length = ends ? 0 : info.length,
                                  .access = RemoteRightsOf(info.mw_access_flags),
                                  .token = request.bind_mw.rkey},
                                 flags);
  return 0;
}

int BindWindow(ibv_qp* queue_pair, ibv_mw* window, ibv_mw_bind* bind) {
  if (InForkedChild()) return ENODEV;
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.wr_id = bind->wr_id;
  request.send_flags = bind->send_flags;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = bind->bind_info;
  const int error = PostSendOf(FromAbi(queue_pair), request);
  if (error == 0) window->rkey = request.bind_mw.rkey;
  return error;
}

}  // namespace nd::verbs_lib
