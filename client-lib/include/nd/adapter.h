// SPDX-License-Identifier: Apache-2.0
// The entry point of the library: opens a session with the broker of this host and one of its adapters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nd/adapter_change.h"
#include "nd/connector.h"
#include "nd/memory.h"
#include "nd/queue_pair.h"
#include "nd/request.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd {

struct OpenOptions {
  // The broker's directory of sockets; empty: $NDBROKER_DIR, else the user's own broker, else the system's
  // (docs/configuration.md, "Where the broker is").
  std::string broker{};
  // Selects an adapter by its name or by one of its addresses. Both empty: the first adapter.
  std::string adapter{};
  Address local{};
  // The name that ndctl shows, [A-Za-z0-9._-]{1,64}. Empty: the command name of the process.
  std::string application{};
  // One background thread per process serves one-sided operations of peers while the application sleeps.
  // Without it, only Poll and Wait move data.
  bool progress_thread = true;
  // Connects again by itself after the broker went away. Bound listeners, listening listeners and shared
  // endpoints then return to the same address. Calls that were pending complete with DEVICE_REMOVED and may
  // be repeated. Connectors that were not established return DEVICE_REMOVED. Established queue pairs continue
  // throughout.
  bool reconnect = true;
};

// An open adapter. Copies name the same adapter. Each Open() makes a session of its own. Every member may be
// called from any thread.
class Adapter {
 public:
  Adapter() = default;
  // DEVICE_NOT_READY: the broker is not running, the adapter is disabled, or the parent of this process had
  // used the library before it forked (such a child must exec first).
  // ACCESS_DENIED: the socket's permissions or policy forbid it. INVALID_PARAMETER: there is no such adapter.
  // INSUFFICIENT_RESOURCES: the session quota is used up.
  static Result<Adapter> Open(const OpenOptions& options = {});
  // The addresses of every adapter, without opening one.
  static Result<std::vector<Address>> QueryAddressList(const OpenOptions& options = {});
  static Result<std::vector<AdapterInfo>> QueryAdapters(const OpenOptions& options = {});

  const AdapterInfo& info() const;
  // Returns the local address, with port 0, from which `remote` is reached. The port of `remote` is ignored.
  Result<Address> ResolveAddress(const Address& remote) const;
  Status CheckAddress(const Address& local) const;

  Result<Buffer> AllocateBuffer(std::size_t size);
  // INVALID_PARAMETER: null; INVALID_BUFFER_SIZE: length 0 or above max_registration_size.
  Result<MemoryRegion> Register(void* address, std::size_t length, std::uint32_t access);
  Result<MemoryRegion> Register(const Buffer& buffer, std::uint32_t access);
  // NOT_SUPPORTED: the provider's devices have no such regions.
  Result<MemoryRegion> Register(void* address, std::size_t length, std::uint32_t access,
                                const RegionOptions& options);
  Result<MemoryWindow> CreateMemoryWindow();
  // NOT_SUPPORTED: the provider's devices have no such windows.
  Result<MemoryWindow> CreateMemoryWindow(WindowKind kind);
  Result<CompletionQueue> CreateCompletionQueue(std::uint32_t depth);
  Result<SharedReceiveQueue> CreateSharedReceiveQueue(std::uint32_t depth, std::uint32_t max_sge = 4);
  // INVALID_PARAMETER_n: the n-th field of QueuePairOptions, counted from 1, is wrong.
  Result<QueuePair> CreateQueuePair(const QueuePairOptions& options);
  Result<Connector> CreateConnector();
  Result<Listener> CreateListener();

  // NDK: binds, listens and calls `on_connect` on the dispatch thread with a connector in state Incoming for
  // each request.
  Result<Listener> NdkListen(const Address& local, std::function<void(Connector)> on_connect);
  Result<SharedEndpoint> CreateSharedEndpoint(const Address& local);

  // For event loops: readable while finished Requests without a callback wait to be taken.
  int completion_handle() const;
  // Takes the oldest finished Request; returns null when there is none.
  Request* PollRequest();

  // True while the session with the broker stands. Established queue pairs do not depend on it.
  bool connected() const;
  // `callback` runs on the dispatch thread when the session is lost and when it is restored with all its
  // objects. New objects can be made, and listeners accept, somewhat earlier.
  void SetSessionCallback(std::function<void(bool connected)> callback);
  // `callback` runs on the dispatch thread when the adapter changes. Changes while the broker is away are not
  // told.
  void SetAdapterCallback(std::function<void(AdapterChange)> callback);

  // Closes every object made from this adapter and waits until none of their callbacks is running. Must not
  // be called from a callback.
  Status Close();

  struct Impl;
  explicit Adapter(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace nd
