// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/overlapped_requests_win.h"

#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nd-provider/wake_sockets_win.h"

namespace nd::spi {

// All requests of the process, because a client may ask any object for the result of any request.
struct RequestTable {
  using Id = OverlappedRequests::Id;
  struct Request {
    OVERLAPPED* overlapped;  // Compared, and given to the system; never read.
    OverlappedRequests* owner;
    std::shared_ptr<WakeSockets> sockets;
    StatusCode status = StatusCode::kPending;
    bool woken = false;
  };

  static RequestTable& The() {
    static auto* const table = new RequestTable;  // Never destroyed: threads of the library use it late.
    return *table;
  }

  void Put(Id id, Request request) {
    request.owner->own_.insert(id);
    by_overlapped.emplace(request.overlapped, id);
    requests.emplace(id, std::move(request));
  }

  // `seen`: the client knows that the kernel has completed it.
  void Erase(std::map<Id, Request>::iterator it, bool seen) {
    Request& request = it->second;
    request.owner->own_.erase(it->first);
    const auto [first, last] = by_overlapped.equal_range(request.overlapped);
    for (auto other = first; other != last; ++other) {
      if (other->second != it->first) continue;
      by_overlapped.erase(other);
      break;
    }
    using enum WakeSockets::Use;
    returned.push_back({std::move(request.sockets), !request.woken ? kIdle : seen ? kCompleted : kWoken});
    requests.erase(it);
  }

  void Complete(Request& request, StatusCode status) {
    if (request.status != StatusCode::kPending) return;
    request.status = status;
    request.woken = status == StatusCode::kSuccess && request.sockets->Wake();
    if (!request.woken) ::CancelIoEx(request.owner->file_.get(), request.overlapped);
  }

  struct Returned {
    std::shared_ptr<WakeSockets> sockets;
    WakeSockets::Use last;
  };
  // Holds the mutex; afterwards returns sockets to their pool, which may wait for the driver.
  class Use {
   public:
    Use() : table_(The()) { table_.mutex.lock(); }
    ~Use() {
      std::vector<Returned> returned;
      returned.swap(table_.returned);
      table_.mutex.unlock();
      for (Returned& each : returned) WakeSockets::Give(std::move(each.sockets), each.last);
    }
    RequestTable* operator->() { return &table_; }

   private:
    RequestTable& table_;
  };

  std::mutex mutex;
  Id last_id = 0;
  std::map<Id, Request> requests;
  std::unordered_multimap<const OVERLAPPED*, Id> by_overlapped;
  std::vector<Returned> returned;
};

namespace {

bool PendingInKernel(const OVERLAPPED* overlapped) {
  return *const_cast<const volatile ULONG_PTR*>(&overlapped->Internal) ==
         static_cast<ULONG_PTR>(kStatusPending);
}

StatusCode KernelStatus(const OVERLAPPED* overlapped) {
  return static_cast<StatusCode>(static_cast<std::uint32_t>(overlapped->Internal));
}

// PENDING: the operation is not over.
StatusCode TakeResult(OVERLAPPED* overlapped) {
  RequestTable::Use table;
  if (PendingInKernel(overlapped)) return StatusCode::kPending;
  const auto [first, last] = table->by_overlapped.equal_range(overlapped);
  for (auto it = first; it != last; ++it) {
    const auto found = table->requests.find(it->second);
    if (found->second.status == StatusCode::kPending) continue;
    const StatusCode status = found->second.status;
    table->Erase(found, true);
    return status;
  }
  const StatusCode status = KernelStatus(overlapped);
  // The system has cancelled a request that this process has not: its thread ended, or the client did it.
  if (status != StatusCode::kSuccess && first != last && std::next(first) == last) {
    const auto found = table->requests.find(first->second);
    found->second.status = status;
    table->Erase(found, true);
  }
  return status;
}

}  // namespace

Result<std::shared_ptr<OverlappedRequests>> OverlappedRequests::Make(HANDLE file) {
  HANDLE own = nullptr;
  const HANDLE process = ::GetCurrentProcess();
  if (file == nullptr || file == INVALID_HANDLE_VALUE ||
      !::DuplicateHandle(process, file, process, &own, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
    return Status(StatusCode::kInvalidHandle, "this is no handle of CreateOverlappedFile");
  }
  return std::shared_ptr<OverlappedRequests>(new OverlappedRequests(os::Handle(own)));
}

OverlappedRequests::~OverlappedRequests() {
  Close();
}

StatusCode OverlappedRequests::Begin(OVERLAPPED* overlapped, Id* id) {
  auto sockets = WakeSockets::Take();
  if (!sockets) return StatusCode::kInsufficientResources;
  RequestTable::Use table;
  // Results of earlier operations with this OVERLAPPED that nobody asked for.
  for (bool again = !PendingInKernel(overlapped); again;) {
    again = false;
    const auto [first, last] = table->by_overlapped.equal_range(overlapped);
    for (auto it = first; it != last && !again; ++it) {
      const auto found = table->requests.find(it->second);
      if (found->second.status == StatusCode::kPending) continue;
      table->Erase(found, false);
      again = true;
    }
  }
  // Under the lock, so that another thread that sees the completion at once finds the request.
  const NTSTATUS started = sockets->Start(file_.get(), overlapped, WaitFor::kReadable);
  if (started != kStatusPending) {
    WakeSockets::Give(std::move(sockets), WakeSockets::Use::kIdle);
    return started == 0 ? StatusCode::kInternalError : static_cast<StatusCode>(started);
  }
  *id = ++table->last_id;
  table->Put(*id, {overlapped, this, std::move(sockets)});
  return StatusCode::kPending;
}

StatusCode OverlappedRequests::Succeed(OVERLAPPED* overlapped) {
  // Every request waits for the same socket, which is always writable.
  static auto* const always = new std::shared_ptr<WakeSockets>(WakeSockets::Take());
  if (!*always) return StatusCode::kInsufficientResources;
  const NTSTATUS started = (*always)->Start(file_.get(), overlapped, WaitFor::kWritable);
  return started == 0 || started == kStatusPending ? StatusCode::kPending : static_cast<StatusCode>(started);
}

void OverlappedRequests::Finish(Id id, StatusCode status) {
  RequestTable::Use table;
  const auto found = table->requests.find(id);
  if (found != table->requests.end()) table->Complete(found->second, status);
}

void OverlappedRequests::FinishAll(StatusCode status) {
  RequestTable::Use table;
  for (const Id id : own_) table->Complete(table->requests.find(id)->second, status);
}

void OverlappedRequests::Close() {
  RequestTable::Use table;
  while (!own_.empty()) {
    const auto found = table->requests.find(*own_.begin());
    table->Complete(found->second, StatusCode::kCanceled);
    table->Erase(found, false);
  }
}

StatusCode OverlappedResult(OVERLAPPED* overlapped, bool wait) {
  constexpr DWORD kLook = 20;  // The system may complete a request without its event.
  const HANDLE event = EventOf(*overlapped);
  bool took = false;
  for (;;) {
    const StatusCode status = TakeResult(overlapped);
    if (status != StatusCode::kPending || !wait) {
      if (status != StatusCode::kPending && wait && event != nullptr && !took) {
        ::WaitForSingleObject(event, 0);
      }
      return status;
    }
    if (event != nullptr) {
      took = ::WaitForSingleObject(event, kLook) == WAIT_OBJECT_0;
    } else {
      ::Sleep(1);
    }
  }
}

}  // namespace nd::spi
