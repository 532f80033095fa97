// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/qp/engine_win.h"

#include <utility>

#include "base/os/library_thread.h"
#include "base/os/object_win.h"

namespace nd::provider::networkdirect {

struct Engine::Pending {
  OVERLAPPED overlapped{};
  os::Handle event;
  Com<spi::IND2Overlapped> object;
  std::weak_ptr<Engine> engine;
  std::function<void(HRESULT)> done;
};

std::shared_ptr<Engine> Engine::Make() {
  auto engine = std::make_shared<Engine>();
  engine->thread_ = std::thread([raw = engine.get()] {
    os::MarkLibraryThread();
    raw->Run();
  });
  return engine;
}

Engine::~Engine() {
  Stop();
  if (thread_.joinable()) thread_.detach();
}

void Engine::PostAt(Time when, std::function<void()> function) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  functions_.emplace(when, std::move(function));
  changed_.notify_one();
}

void Engine::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_one();
  }
  if (thread_.get_id() == std::this_thread::get_id()) return;  // Run() returns after this function.
  if (thread_.joinable()) thread_.join();
  decltype(functions_) dropped;  // Destroyed outside the lock.
  std::lock_guard lock(mutex_);
  dropped.swap(functions_);
}

void Engine::Run() {
  const std::shared_ptr<Engine> self = shared_from_this();
  std::unique_lock lock(mutex_);
  for (;;) {
    const Time now = std::chrono::steady_clock::now();
    if (!functions_.empty() && functions_.begin()->first <= now) {
      auto function = functions_.extract(functions_.begin());
      lock.unlock();
      function.mapped()();
      function = {};
      lock.lock();
    } else if (stopped_) {
      return;
    } else if (functions_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, functions_.begin()->first);
    }
  }
}

void Engine::Call(Com<spi::IND2Overlapped> object, const std::function<HRESULT(OVERLAPPED*)>& begin,
                  std::function<void(HRESULT)> done) {
  auto pending = std::make_unique<Pending>();
  pending->event = os::Handle(::CreateEventW(nullptr, /*bManualReset=*/TRUE, FALSE, nullptr));
  const PTP_WAIT wait = pending->event ? ::CreateThreadpoolWait(OnEvent, pending.get(), nullptr) : nullptr;
  if (wait == nullptr) return done(static_cast<HRESULT>(StatusCode::kInsufficientResources));
  pending->overlapped.hEvent = pending->event.get();
  const HRESULT hr = begin(&pending->overlapped);
  if (!IsPending(hr)) {
    ::CloseThreadpoolWait(wait);
    return done(hr);
  }
  pending->object = std::move(object);
  pending->engine = weak_from_this();
  pending->done = std::move(done);
  const HANDLE event = pending->event.get();
  static_cast<void>(pending.release());  // OnEvent() has it.
  ::SetThreadpoolWait(wait, event, nullptr);
}

void Engine::OnEvent(PTP_CALLBACK_INSTANCE, void* context, PTP_WAIT wait, TP_WAIT_RESULT) {
  ::CloseThreadpoolWait(wait);
  std::shared_ptr<Pending> pending(static_cast<Pending*>(context));
  const std::shared_ptr<Engine> engine = pending->engine.lock();
  if (!engine) return;
  engine->Post([pending = std::move(pending)] {
    pending->done(pending->object->GetOverlappedResult(&pending->overlapped, TRUE));
  });
}

HRESULT Await(spi::IND2Overlapped& object, const std::function<HRESULT(OVERLAPPED*)>& begin) {
  const os::Handle event(::CreateEventW(nullptr, /*bManualReset=*/TRUE, FALSE, nullptr));
  if (!event) return static_cast<HRESULT>(StatusCode::kInsufficientResources);
  OVERLAPPED overlapped{};
  overlapped.hEvent = event.get();
  const HRESULT hr = begin(&overlapped);
  return IsPending(hr) ? object.GetOverlappedResult(&overlapped, TRUE) : hr;
}

}  // namespace nd::provider::networkdirect
