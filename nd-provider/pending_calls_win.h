// SPDX-License-Identifier: Apache-2.0
// Calls of the library that a client waits for with an OVERLAPPED: the library's Request, tied to a request
// that is pending in the kernel. Any thread; the destructor not on a thread of the library.
#pragma once

#include "nd-provider/overlapped_requests_win.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "nd/request.h"

namespace nd::spi {

class PendingCalls {
 public:
  // The answer of NDSPI for a status of the library; null: the same.
  using Translate = StatusCode (*)(StatusCode);

  explicit PendingCalls(std::shared_ptr<OverlappedRequests> requests) : requests_(std::move(requests)) {}
  // The calls go on; nobody learns their results.
  ~PendingCalls();

  // `call` starts an operation of the library with the Request. PENDING: one completion follows, also when
  // the operation was finished at once. Any other status is its failure.
  StatusCode Start(OVERLAPPED* overlapped, const std::function<Status(Request*)>& call,
                   Translate translate = nullptr);
  // Completes the requests whose operations are over, in place of the library's thread, which comes later.
  void TakeFinished();

 private:
  struct Call {
    Request request;
    Translate translate;
    OverlappedRequests::Id id = 0;
    bool begun = false;                // The request is pending in the kernel.
    std::optional<StatusCode> status;  // The operation was over before that.
  };
  void OnDone(Call* call, const Status& status);
  std::shared_ptr<Call> Remove(Call* call);
  static StatusCode Answer(const Call& call, const Status& status);

  const std::shared_ptr<OverlappedRequests> requests_;
  std::mutex mutex_;
  std::map<Call*, std::shared_ptr<Call>> calls_;
};

}  // namespace nd::spi
