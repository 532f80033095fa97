// SPDX-License-Identifier: Apache-2.0
// The devices that programs see: one for each adapter of the broker that this library can serve.
//
// Devices and their sessions with the broker are never destroyed: a program may use them in its last
// destructor.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "nd/nd.h"
#include "verbs-lib/gid.h"

namespace nd::verbs_lib {

struct Context;

// The number of the only port of each device.
inline constexpr std::uint8_t kOnlyPort = 1;

// Programs hold a pointer to `abi`. Zeros follow, because libmlx5 and libefa look behind it for a table of
// their own and must not find one.
struct Device {
  ibv_device abi{};
  char zeros[4096]{};
  AdapterInfo info;
  int index = 0;

  // Opens the session at the first call. On failure prints one line and sets errno.
  Adapter* adapter();
  // False while the adapter is disabled.
  bool port_is_up() const { return up_.load(); }
  // The contexts that are told of its events.
  void AddContext(Context* context);
  // The context is not used when this returns.
  void RemoveContext(Context* context);

 private:
  void OnChange(AdapterChange change);

  std::mutex mutex_;
  Adapter adapter_;
  bool open_ = false;
  std::atomic<bool> up_{true};
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
};

// The asynchronous events of an opened device.
struct Context {
  verbs_context abi{};  // Programs hold a pointer to abi.context.
  Device* device = nullptr;
  std::mutex mutex;
  std::deque<ibv_async_event> events;
  std::map<const void*, unsigned> unacknowledged;  // Events that the program took, by their object.
  std::condition_variable acknowledged;

  void Tell(const ibv_async_event& event);
  // Blocks until the program has acknowledged the events of an object that is being destroyed, and drops
  // those that it has not taken.
  void Forget(const void* object);
  void Acknowledge(const void* object);
};

inline Context* FromAbi(ibv_context* context) {
  auto* verbs =
      reinterpret_cast<verbs_context*>(reinterpret_cast<char*>(context) - offsetof(verbs_context, context));
  return reinterpret_cast<Context*>(verbs);
}
inline Device* FromAbi(ibv_device* device) {
  return reinterpret_cast<Device*>(device);
}

// Asks the broker at each call until it has answered once. Null when there is no broker; errno is set then
// and one line is on stderr.
const std::vector<Device*>* Devices();
// The device that has this local address, or null.
Device* DeviceOf(const Address& local);

// Returns the local address that a program of rdma_cm means. A loopback address that no adapter has stands
// for an address of the first adapter of its family, as the kernel attaches it to the first device.
Address Attached(const Address& address);

// The GUID of an adapter in network order.
__be64 GuidOf(const AdapterInfo& info);

// The errno for a status of the broker or of a provider.
int ErrnoOf(const Status& status);
// Sets errno and returns null, for functions that return an object.
std::nullptr_t FailWith(int error);

}  // namespace nd::verbs_lib
