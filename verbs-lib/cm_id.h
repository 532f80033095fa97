// SPDX-License-Identifier: Apache-2.0
// A communication identifier of rdma_cm: a listener, or one end of a connection of the broker.
//
// Thread rule: commands of one identifier come from one thread at a time, as the kernel's users promise;
// completions of the library arrive on its dispatch thread. `mutex_` guards the fields that both use, and is
// never held during a call to the library.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "nd/nd.h"
#include "verbs-lib/cm_channel.h"
#include "verbs-lib/cm_listener.h"
#include "verbs-lib/device.h"
#include "verbs-lib/queue_pair.h"

namespace nd::verbs_lib {

class CmId : public std::enable_shared_from_this<CmId> {
 public:
  // Port spaces: RDMA_PS_TCP, and RDMA_PS_UDP (cm_datagrams.cc).
  enum class Space : std::uint8_t { kConnections, kDatagrams };

  static std::shared_ptr<CmId> Make(std::shared_ptr<CmChannel> channel, std::uint64_t uid, Space space);
  // Null: there is no such identifier.
  static std::shared_ptr<CmId> Find(std::uint32_t handle);
  static void DestroyAllOf(const CmChannel* channel);
  // The adapter of the device is gone.
  static void TellRemoval(const Device* device);

  std::uint32_t handle() const { return handle_; }

  // The commands. Each returns 0 or an errno.
  int Bind(const Address& local);
  int ResolveAddress(const Address& source, const Address& remote);
  int ResolveRoute();
  int Listen(std::uint32_t backlog);
  int Connect(const rdma_ucm_conn_param& parameters);
  int Accept(std::uint64_t uid, const rdma_ucm_conn_param& parameters);
  int Reject(PrivateData data);
  int Disconnect();
  // Returns the number of events that the program has taken.
  std::uint32_t Destroy();
  std::uint32_t MoveTo(std::shared_ptr<CmChannel> channel);
  void FillRoute(rdma_ucm_query_route_resp* out);
  // What ibv_query_qp of its queue pair says. The broker's connections time out by themselves.
  void SetAckTimeout(std::uint8_t timeout) { ack_timeout_ = timeout; }
  // A listener at :: takes no requests to IPv4 addresses. Of no effect once it is bound.
  void SetOneFamily(bool one) { one_family_ = one; }
  void FillQpAttributes(std::uint32_t state, ib_uverbs_qp_attr* out);

  // The program took an event: counts it, and fills in the present uid of the identifier.
  void Reported(CmChannel::Event* event);

 private:
  bool for_datagrams() const { return space_ == Space::kDatagrams; }
  CmChannel::Event MakeEvent(CmEvent event, int status, const std::shared_ptr<CmId>& request);
  // These return false when the identifier is destroyed, and drop the event.
  bool Push(CmChannel::Event event);
  bool Tell(CmEvent event, int status, const rdma_ucm_conn_param* parameters = nullptr,
            const std::shared_ptr<CmId>& request = nullptr);
  bool TellOfDatagrams(CmEvent event, int status, const rdma_ucm_ud_param& parameters,
                       const std::shared_ptr<CmId>& request = nullptr);
  // One more GetConnectionRequest on this listener.
  void AwaitRequest(std::size_t listener);
  // Makes `request` the passive end of `connector`, and tells the program. False: it is not of this port
  // space, and refused.
  bool Introduce(const std::shared_ptr<CmId>& request, const std::shared_ptr<CmListener>& listener,
                 Connector connector);
  void OnRequestTaken(std::size_t listener);
  void StartConnect(int attempt);
  void OnConnected(const Status& status, int attempt);
  void OnEstablished();
  void OnDisconnected();
  void TellOfTheEnd(int attempt);
  void FillConnectionData(rdma_ucm_conn_param* out);
  // Takes the queue pair that the program named, or makes one that carries no data.
  Status TakeQueuePair(const rdma_ucm_conn_param& parameters);
  Status MakeInnerPair();
  void SetOptions(const rdma_ucm_conn_param& parameters);
  // Asks for the end of the connection, for `established_` ones.
  void AwaitDisconnect();
  int BindConnector();
  // Reports the requests that a former identifier left on this listener.
  void IntroduceUnseen(const std::shared_ptr<CmListener>& listener);
  // Ends the identifier, but leaves its request to the next identifier that listens.
  void LeaveUnseen();
  bool dead();
  void ReleaseListeners();
  void CloseEverything();

  // RDMA_PS_UDP.
  std::optional<rdma_ucm_ud_param> Question();
  int Ask(const rdma_ucm_conn_param& parameters);
  int Answer(std::uint64_t uid, const rdma_ucm_conn_param& parameters);
  void OnAnswered();
  void OnRefused(const Status& status, bool wants_listener);
  void FillDatagramAttributes(std::uint32_t state, ib_uverbs_qp_attr* out);

  std::uint32_t handle_ = 0;
  Space space_ = Space::kConnections;
  std::mutex mutex_;
  std::shared_ptr<CmChannel> channel_;
  std::uint64_t uid_ = 0;
  std::uint32_t reported_ = 0;
  bool dead_ = false;

  Device* device_ = nullptr;
  Address local_, remote_;
  bool one_family_ = false;
  // Bound; those of each adapter when bound to the unspecified address.
  std::vector<std::shared_ptr<CmListener>> listeners_;
  std::shared_ptr<CmListener> delivered_by_;
  bool listening_ = false;
  std::uint32_t backlog_ = 0, unread_requests_ = 0;
  std::vector<std::size_t> waiting_listeners_;  // Have no GetConnectionRequest, because the backlog is full.

  Connector connector_;
  bool connector_bound_ = false, passive_ = false;
  bool route_resolved_ = false;
  bool asked_ = false, answered_ = false;  // rdma_connect; rdma_accept or rdma_reject of the passive side.
  bool established_ = false, end_told_ = false;
  std::uint8_t ack_timeout_ = 14;
  std::shared_ptr<QueuePair> queue_pair_;
  nd::QueuePair used_;  // The queue pair of the connection.
  nd::CompletionQueue inner_queue_;
  ConnectOptions options_;
  std::vector<std::byte> private_data_;
};

}  // namespace nd::verbs_lib
