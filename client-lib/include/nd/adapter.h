// SPDX-License-Identifier: Apache-2.0
// Where everything starts: a session with the broker on this host, and one of its adapters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
  // Adapter by name or by one of its addresses; both empty: the first one.
  std::string adapter{};
  Address local{};
  // Shown by ndctl; [A-Za-z0-9._-]{1,64}. Empty: the process's command name.
  std::string application{};
  // One background thread per process completes one-sided operations while the application sleeps. Without
  // it, only Poll and Wait move data.
  bool progress_thread = true;
  // After the broker went away: connect again by itself. Bound and listening listeners and shared endpoints
  // are then what they were, on the same address (calls that waited ended with DEVICE_REMOVED and can be made
  // again); old connectors that were not established answer DEVICE_REMOVED; established queue pairs never
  // noticed.
  bool reconnect = true;
};

// An open adapter. Copies name the same one. Each Open() is a session of its own. Any thread.
class Adapter {
 public:
  Adapter() = default;
  // DEVICE_NOT_READY: the broker is not running or the adapter is disabled, or this process was forked after
  // its parent had used the library (exec first; children forked before that are free to use it);
  // ACCESS_DENIED: no permission on its socket, or policy; INVALID_PARAMETER: no such adapter;
  // INSUFFICIENT_RESOURCES: session quota.
  static Result<Adapter> Open(const OpenOptions& options = {});
  // The addresses of every adapter, without opening one.
  static Result<std::vector<Address>> QueryAddressList(const OpenOptions& options = {});
  static Result<std::vector<AdapterInfo>> QueryAdapters(const OpenOptions& options = {});

  const AdapterInfo& info() const;
  // The local address that would be used to reach `remote` (its port is ignored), with port 0.
  Result<Address> ResolveAddress(const Address& remote) const;
  Status CheckAddress(const Address& local) const;

  Result<Buffer> AllocateBuffer(std::size_t size);
  // INVALID_PARAMETER: null; INVALID_BUFFER_SIZE: length 0 or above max_registration_size.
  Result<MemoryRegion> Register(void* address, std::size_t length, std::uint32_t access);
  Result<MemoryRegion> Register(const Buffer& buffer, std::uint32_t access);
  Result<MemoryWindow> CreateMemoryWindow();
  Result<CompletionQueue> CreateCompletionQueue(std::uint32_t depth);
  Result<SharedReceiveQueue> CreateSharedReceiveQueue(std::uint32_t depth, std::uint32_t max_sge = 4);
  // INVALID_PARAMETER_n names the n-th field of QueuePairOptions that is wrong, counted from 1.
  Result<QueuePair> CreateQueuePair(const QueuePairOptions& options);
  Result<Connector> CreateConnector();
  Result<Listener> CreateListener();

  // NDK: bind, listen and deliver a connector in state Incoming for each request, on the dispatch thread.
  Result<Listener> NdkListen(const Address& local, std::function<void(Connector)> on_connect);
  Result<SharedEndpoint> CreateSharedEndpoint(const Address& local);

  // For event loops: readable while finished Requests (those without a callback) wait to be taken.
  int completion_handle() const;
  // Takes the oldest finished Request; null when none waits.
  Request* PollRequest();

  // True while the broker answers. Established queue pairs do not depend on it.
  bool connected() const;
  // Called on the dispatch thread when the session is lost and when it is back.
  void SetSessionCallback(std::function<void(bool connected)> callback);

  // Closes everything made from it; returns when no callback of any of it is running. Not from a callback.
  Status Close();

  struct Impl;
  explicit Adapter(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace nd
