// SPDX-License-Identifier: Apache-2.0
// An open adapter: its session with the broker and its device. It creates every other object.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "client-lib/core/broker_session.h"
#include "client-lib/core/handle.h"
#include "nd/types.h"
#include "provider/qp.h"

namespace nd::client {

class LocalConnector;
class LocalListener;
class LocalSharedEndpoint;
class LocalQueuePair;
struct LocalCompletionQueue;
struct LocalSharedReceiveQueue;

// The arguments of CreateQueuePair, numbered as those of the public call. The pointers are borrowed.
struct QueuePairArguments {
  LocalCompletionQueue* receive_cq = nullptr;
  LocalCompletionQueue* initiator_cq = nullptr;
  bool shares_receive_queue = false;
  LocalSharedReceiveQueue* shared_receive_queue = nullptr;
  void* context = nullptr;
  std::uint32_t receive_depth = 0, initiator_depth = 0;
  std::uint32_t max_receive_sge = 0, max_initiator_sge = 0;
  std::uint32_t inline_size = 0;
};

class LocalAdapter final : public std::enable_shared_from_this<LocalAdapter> {
 public:
  static constexpr char kWhat[] = "the adapter";

  LocalAdapter(std::shared_ptr<BrokerSession> opened, std::shared_ptr<provider::Device> device,
               const std::shared_ptr<SessionUse>& use);

  bool usable() const { return !closed_ && !session->in_child(); }
  void LastHandleGone() {}

  Result<Address> ResolveAddress(const Address& remote);
  Status CheckAddress(const Address& local);

  Result<std::shared_ptr<provider::Buffer>> AllocateBuffer(std::size_t size);
  // `flags` of provider/regions.h, for ndctl.
  Result<std::shared_ptr<provider::MemoryRegion>> Register(void* address, std::size_t length,
                                                           std::uint32_t access, std::uint32_t flags,
                                                           const RegionOptions& options = {});
  Result<std::shared_ptr<provider::MemoryWindow>> CreateMemoryWindow(
      WindowKind kind = WindowKind::kNetworkDirect);

  Result<AppHandle<LocalCompletionQueue>> CreateCompletionQueue(std::uint32_t depth);
  Result<AppHandle<LocalSharedReceiveQueue>> CreateSharedReceiveQueue(std::uint32_t depth,
                                                                      std::uint32_t max_sge);
  Result<AppHandle<LocalQueuePair>> CreateQueuePair(const QueuePairArguments& arguments);
  Result<AppHandle<LocalConnector>> CreateConnector();
  Result<AppHandle<LocalListener>> CreateListener();
  Status AwaitListening(const Address& local) { return device_->AwaitListening(local); }
  Result<AppHandle<LocalListener>> NdkListen(const Address& local,
                                             std::function<void(AppHandle<LocalConnector>)> on_connect);
  Result<AppHandle<LocalSharedEndpoint>> CreateSharedEndpoint(const Address& local);

  // The owner of the oldest finished call without a callback; null when there is none.
  void* PollCall();
  void SetSessionCallback(std::function<void(bool connected)> callback);
  void SetAdapterCallback(std::function<void(AdapterChange)> callback);
  // Closes every object of the adapter and waits until none of their callbacks runs. INVALID_DEVICE_STATE on
  // a thread of the session.
  Status Close();

  // The handle of an object of this adapter; null when the session is ending.
  template <typename T>
  AppHandle<T> HandleOf(std::shared_ptr<T> object) {
    return MakeHandle(std::move(object), use_.lock());
  }

  const std::shared_ptr<BrokerSession> session;

 private:
  // Creates an object of this adapter at the broker; returns its handle and life.
  template <typename Op>
  Result<Reply> Create(Op op, BrokerSession::Life* life);
  Status CheckArguments(const QueuePairArguments& arguments) const;

  const std::shared_ptr<provider::Device> device_;
  const std::weak_ptr<SessionUse> use_;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::vector<std::weak_ptr<provider::MemoryRegion>> regions_;
};

}  // namespace nd::client
