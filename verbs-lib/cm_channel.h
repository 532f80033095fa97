// SPDX-License-Identifier: Apache-2.0
// The event channels of the emulated /dev/infiniband/rdma_cm: one for each time that the device is opened.
//
// The descriptor is an eventfd that is readable while events wait. A program may poll it and make it
// non-blocking. It may also close it behind our back (dup2, close_range, a system call) and get another file
// under the same number, so the channel uses a descriptor of its own, and looks at the other one before it
// believes in it.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/unique_fd.h"

namespace nd::verbs_lib {

class CmId;

// The numbers of enum rdma_cm_event_type. rdma_cma.h cannot be included beside the kernel's header.
enum class CmEvent : std::uint32_t {
  kAddrResolved = 0,
  kAddrError = 1,
  kRouteResolved = 2,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kConnectError = 6,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
};

class CmChannel {
 public:
  // Null, with errno, when there is no descriptor.
  static std::shared_ptr<CmChannel> Open();
  // The channel of a descriptor, or null. Takes no lock when `fd` is of no channel.
  static std::shared_ptr<CmChannel> Of(int fd);
  // True when `fd` is a channel. Takes no lock.
  static bool Is(int fd);
  // The program closed the descriptor.
  static void Forget(int fd);
  // Is(fd), and the descriptor is still that of the channel. Else the channel is forgotten.
  static bool StillIs(int fd);
  // This process opened the channels; false in its children.
  static bool OpenedHere();

  int fd() const { return fd_; }

  struct Event {
    rdma_ucm_event_resp response{};
    std::shared_ptr<CmId> owner;    // Counts the event as reported.
    std::shared_ptr<CmId> request;  // kConnectRequest: the connection that asks.
  };
  void Push(Event event);
  // Waits as the descriptor says. 0, or EAGAIN, EINTR.
  int Pop(Event* event);
  // Takes the waiting events of `owner` out.
  std::deque<Event> Remove(const CmId* owner);

 private:
  CmChannel(int fd, UniqueFd own) : fd_(fd), own_(std::move(own)) {}
  // Under mutex_.
  void BecomeReadable();
  void BecomeUnreadable();

  const int fd_;
  const UniqueFd own_;
  std::mutex mutex_;
  std::deque<Event> events_;
};

}  // namespace nd::verbs_lib
