// SPDX-License-Identifier: Apache-2.0
// The OVERLAPPED requests of one object of a client, completed by this process as a driver would.
//
// Each request is pending in the kernel, on the client's file, from Begin() or Succeed() until its
// completion; so every means of Win32 shows it: the event, GetOverlappedResult, a completion port bound to
// the file. A successful completion is one of the kernel; a failed one is a cancelled request, and the status
// that was meant is in OverlappedResult(). Any thread.
//
// The memory of an OVERLAPPED is read when the client passes it, and never later. The client may close its
// handle of the file at any time. As with every driver, the system cancels the requests of a thread that
// ends, unless a completion port is bound to the file.
#pragma once

#include <winsock2.h>

#include <windows.h>

#include <cstdint>
#include <memory>
#include <set>

#include "base/os/object_win.h"
#include "nd/status.h"

namespace nd::spi {

class OverlappedRequests {
 public:
  using Id = std::uint64_t;

  // `file` is from CreateOverlappedFile(). INVALID_HANDLE: it is no handle of this process.
  static Result<std::shared_ptr<OverlappedRequests>> Make(HANDLE file);
  // As Close().
  ~OverlappedRequests();

  // PENDING: the request waits for Finish(*id). Any other status: there is no request. One OVERLAPPED may be
  // pending several times, because programs do that when they end.
  StatusCode Begin(OVERLAPPED* overlapped, Id* id);
  // A request that has succeeded already. PENDING, or why there is no request.
  StatusCode Succeed(OVERLAPPED* overlapped);
  // Completes a request; does nothing when it is complete.
  void Finish(Id id, StatusCode status);
  // Completes all that are pending, oldest first.
  void FinishAll(StatusCode status);
  // Completes all that are pending with CANCELED, and forgets results that nobody asked for.
  void Close();

 private:
  explicit OverlappedRequests(os::Handle file) : file_(std::move(file)) {}
  friend struct RequestTable;

  const os::Handle file_;
  std::set<Id> own_;  // Guarded by the mutex of the table.
};

// The status of the newest operation with this OVERLAPPED, of any object; PENDING while there is none.
// `wait`: waits for it, and takes an event that resets itself, as GetOverlappedResult of Win32 does.
StatusCode OverlappedResult(OVERLAPPED* overlapped, bool wait);

}  // namespace nd::spi
