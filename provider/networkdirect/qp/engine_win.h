// SPDX-License-Identifier: Apache-2.0
// The thread of a device that makes its connections: it runs posted functions in order, and starts every call
// of the adapter that takes an OVERLAPPED, because a system cancels the calls of a thread that ends.
//
// A completion is learned from the event of its OVERLAPPED, and from nothing else. So it does not matter
// whether a DLL also reports calls to a completion port that it finished at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "provider/networkdirect/com_win.h"

namespace nd::provider::networkdirect {

class Engine final : public std::enable_shared_from_this<Engine> {
 public:
  static std::shared_ptr<Engine> Make();
  ~Engine();

  // Any thread. After Stop() nothing runs any more, and the functions are destroyed.
  void Post(std::function<void()> function) { PostAt({}, std::move(function)); }
  void PostAt(Time when, std::function<void()> function);
  // Runs what is due, and waits for the end of the thread; on the thread itself it does not wait.
  void Stop();

  // On the thread. begin() calls the object with the OVERLAPPED; done() gets the result once, on the thread,
  // possibly before this returns. The object is held until then.
  void Call(Com<spi::IND2Overlapped> object, const std::function<HRESULT(OVERLAPPED*)>& begin,
            std::function<void(HRESULT)> done);

 private:
  struct Pending;
  static void CALLBACK OnEvent(PTP_CALLBACK_INSTANCE, void* context, PTP_WAIT wait, TP_WAIT_RESULT);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Time, std::function<void()>> functions_;
  bool stopped_ = false;
  std::thread thread_;
};

// Makes a call on this thread and waits for its end.
HRESULT Await(spi::IND2Overlapped& object, const std::function<HRESULT(OVERLAPPED*)>& begin);

}  // namespace nd::provider::networkdirect
