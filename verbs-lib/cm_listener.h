// SPDX-License-Identifier: Apache-2.0
// A listener of the broker on one adapter.
//
// The broker keeps the port of a listener until the last connection that came through it is closed; the
// kernel's rdma_cm frees it with the listening identifier. So a listener whose identifier is gone stays,
// paused, as long as connections use it, and the next identifier of this process that binds its address takes
// it over.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nd/nd.h"
#include "verbs-lib/device.h"

namespace nd::verbs_lib {

class CmListener : public std::enable_shared_from_this<CmListener> {
 public:
  // Takes over a listener that a former identifier left, or binds a new one.
  static Result<std::shared_ptr<CmListener>> Bind(Device* device, const Address& local);
  ~CmListener();

  Device* device() const { return device_; }
  const Address& local() const { return local_; }
  Listener& listener() { return listener_; }
  // The broker queues as many requests as it does for any program; the backlog of the identifier says how
  // many of them are taken from it before the program looks.
  // `on_unseen` runs when KeepUnseen() has added a request; TakeUnseen() then returns it.
  Status Listen(std::function<void()> on_unseen);
  // The identifier that bound it is gone. Each connection keeps its own pointer.
  void Leave();
  // A request that the program had not seen when its identifier went away. Programs listen again at once
  // (perftest -R), so it waits a moment for the next identifier before it is refused.
  void KeepUnseen(Connector request);
  std::vector<Connector> TakeUnseen();

 private:
  CmListener(Device* device, Address local, Listener listener)
      : device_(device), local_(local), listener_(std::move(listener)) {}

  Device* const device_;
  const Address local_;
  Listener listener_;
  bool listening_ = false;
  bool left_ = false;                // Under the lock of the table.
  std::vector<Connector> unseen_;    // Likewise.
  std::function<void()> on_unseen_;  // Likewise.
};

// Binds. A port that an object of this process still holds while it closes is waited for, because
// rdma_destroy_id gives a port back before it returns.
Status BindPatiently(const std::function<Status()>& bind);

// Runs `start` with a Request and then `done` exactly once: at once when the operation is not pending, else
// on the library's dispatch thread.
void Begin(const std::function<Status(Request*)>& start, std::function<void(const Status&)> done);

// Changes the number of objects of this process that close in the background.
void CountClosing(int change);

template <typename Object>
void CloseInBackground(Object object) {
  CountClosing(1);
  Begin([&](Request* request) { return object.Close(request); }, [](const Status&) { CountClosing(-1); });
}

}  // namespace nd::verbs_lib
