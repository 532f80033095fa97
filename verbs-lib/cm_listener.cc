// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/cm_listener.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "verbs-lib/later.h"

namespace nd::verbs_lib {
namespace {

struct ListenerTable {
  std::mutex mutex;
  std::vector<std::weak_ptr<CmListener>> listeners;
};

ListenerTable& listener_table() {
  static auto* instance = new ListenerTable;
  return *instance;
}

struct Closing {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;
};

Closing& closing() {
  static auto* instance = new Closing;
  return *instance;
}

constexpr int kPortTries = 5;
constexpr auto kUnseenPatience = std::chrono::milliseconds(500);

// A port that is free now. A listener does not tell its port before it listens, and rdma_bind_addr must tell
// it.
Result<std::uint16_t> FreePort(Adapter& adapter, const Address& local) {
  auto made = adapter.CreateConnector();
  if (!made.ok()) return made.status();
  const auto& addresses = adapter.info().addresses;
  const auto same_family =
      std::ranges::find_if(addresses, [&](const Address& own) { return own.family() == local.family(); });
  if (same_family == addresses.end()) return Status(StatusCode::kInvalidAddress);
  Connector connector = std::move(made).value();
  const Address wanted = (local.unspecified() ? *same_family : local).WithPort(0);
  if (Status status = connector.Bind(wanted); !status.ok()) return status;
  auto bound = connector.GetLocalAddress();
  if (!bound.ok()) return bound.status();
  if (Status status = connector.Close(); !status.ok()) return status;
  return bound->port();
}

// Waits until an object has closed. False: none closes, or none has closed before `deadline`.
bool AwaitClosing(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(closing().mutex);
  const int before = closing().count;
  return before != 0 &&
         closing().changed.wait_until(lock, deadline, [before] { return closing().count < before; });
}

}  // namespace

void CountClosing(int change) {
  std::lock_guard lock(closing().mutex);
  closing().count += change;
  closing().changed.notify_all();
}

Status BindPatiently(const std::function<Status()>& bind) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  Status status = bind();
  while (status == StatusCode::kSharingViolation && AwaitClosing(deadline)) status = bind();
  return status;
}

void Begin(const std::function<Status(Request*)>& start, std::function<void(const Status&)> done) {
  // Destroys itself after its callback, which may run before start() returns.
  auto* slot = new Request*;
  *slot = new Request([done, slot](const Status& status) {
    done(status);
    delete *slot;
    delete slot;
  });
  const Status status = start(*slot);
  if (status.pending()) return;
  delete *slot;
  delete slot;
  done(status);
}

Result<std::shared_ptr<CmListener>> CmListener::Bind(Device* device, const Address& local) {
  {
    std::lock_guard lock(listener_table().mutex);
    for (const auto& weak : listener_table().listeners) {
      const auto one = weak.lock();
      if (one && one->left_ && one->device_ == device && one->local_ == local) {
        one->left_ = false;
        return one;
      }
    }
  }
  Adapter* adapter = device->adapter();
  if (adapter == nullptr) return Status(StatusCode::kDeviceNotReady);
  auto made = adapter->CreateListener();
  if (!made.ok()) return made.status();
  Listener listener = std::move(made).value();
  Address bound = local;
  Status status;
  for (int tries = 0; tries < kPortTries; ++tries) {
    if (local.port() == 0) {
      auto port = FreePort(*adapter, local);
      if (!port.ok()) return port.status();
      bound.set_port(*port);
    }
    status = BindPatiently([&] { return listener.Bind(bound); });
    if (local.port() != 0 || !(status == StatusCode::kSharingViolation)) break;
  }
  if (!status.ok()) return status;
  std::shared_ptr<CmListener> result(new CmListener(device, bound, std::move(listener)));
  std::lock_guard lock(listener_table().mutex);
  std::erase_if(listener_table().listeners, [](const auto& weak) { return weak.expired(); });
  listener_table().listeners.push_back(result);
  return result;
}

CmListener::~CmListener() {
  CloseInBackground(std::move(listener_));
}

Status CmListener::Listen(std::function<void()> on_unseen) {
  {
    std::lock_guard lock(listener_table().mutex);
    on_unseen_ = std::move(on_unseen);
  }
  if (listening_) return listener_.ControlConnectEvents(false);
  const Status status = listener_.Listen();
  listening_ = status.ok();
  return status;
}

void CmListener::Leave() {
  static_cast<void>(listener_.Cancel());
  if (listening_) static_cast<void>(listener_.ControlConnectEvents(true));
  std::lock_guard lock(listener_table().mutex);
  left_ = true;
  on_unseen_ = nullptr;
}

void CmListener::KeepUnseen(Connector request) {
  std::function<void()> listens_again;
  {
    std::lock_guard lock(listener_table().mutex);
    unseen_.push_back(std::move(request));
    listens_again = on_unseen_;
  }
  if (listens_again) return listens_again();
  RunLater(kUnseenPatience, [self = shared_from_this()] {
    for (Connector& refused : self->TakeUnseen()) CloseInBackground(std::move(refused));
  });
}

std::vector<Connector> CmListener::TakeUnseen() {
  std::lock_guard lock(listener_table().mutex);
  return std::exchange(unseen_, {});
}

}  // namespace nd::verbs_lib
