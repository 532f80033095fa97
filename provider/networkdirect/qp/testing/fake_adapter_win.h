// SPDX-License-Identifier: Apache-2.0
// Tests only: an adapter of Network Direct whose calls the test answers. A call with an OVERLAPPED is pending
// in the kernel, as with a driver (nd-provider/overlapped_requests_win.h), until the test finishes it.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nd-provider/overlapped_requests_win.h"
#include "nd-provider/wake_sockets_win.h"
#include "provider/networkdirect/com_win.h"

namespace nd::provider::networkdirect {

inline HRESULT Hr(StatusCode code) {
  return static_cast<HRESULT>(code);
}

// Counts the living objects.
inline std::atomic<int> living{0};

template <typename Interface>
class Fake : public Interface {
 public:
  Fake() { ++living; }
  virtual ~Fake() { --living; }
  HRESULT STDMETHODCALLTYPE QueryInterface(REFIID, void**) override { return E_NOINTERFACE; }
  ULONG STDMETHODCALLTYPE AddRef() override { return ++references_; }
  ULONG STDMETHODCALLTYPE Release() override {
    const ULONG left = --references_;
    if (left == 0) delete this;
    return left;
  }

 private:
  std::atomic<ULONG> references_{1};
};

// What the test says about calls: the answers, and which are pending. Any thread.
class Script {
 public:
  struct Pending {
    std::shared_ptr<spi::OverlappedRequests> requests;
    spi::OverlappedRequests::Id id = 0;
  };
  // The answer to a call: SUCCESS, unless the test set another one.
  HRESULT Answer(const std::string& call) {
    std::lock_guard lock(mutex_);
    log_.push_back(call);
    changed_.notify_all();
    const auto found = answers_.find(call);
    return found == answers_.end() ? S_OK : found->second;
  }
  // The same for a call with an OVERLAPPED: pending, unless the test set an answer.
  HRESULT Begin(const std::string& call, const std::shared_ptr<spi::OverlappedRequests>& requests,
                OVERLAPPED* overlapped) {
    std::lock_guard lock(mutex_);
    log_.push_back(call);
    if (const auto found = answers_.find(call); found != answers_.end()) {
      changed_.notify_all();
      return found->second;
    }
    Pending pending{requests};
    const StatusCode begun = requests->Begin(overlapped, &pending.id);
    pending_[call].push_back(std::move(pending));
    changed_.notify_all();
    return Hr(begun);
  }
  void Set(const std::string& call, HRESULT answer) {
    std::lock_guard lock(mutex_);
    answers_[call] = answer;
  }
  // Completes the oldest pending call of this name, when it comes.
  void Finish(const std::string& call, StatusCode status) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return !pending_[call].empty(); })) return;
    const Pending pending = std::move(pending_[call].front());
    pending_[call].pop_front();
    lock.unlock();
    pending.requests->Finish(pending.id, status);
  }
  // Waits until the call was made `count` times.
  bool Await(const std::string& call, std::ptrdiff_t count = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return std::ranges::count(log_, call) >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, HRESULT> answers_;
  std::map<std::string, std::deque<Pending>> pending_;
  std::vector<std::string> log_;
};

template <typename Interface>
class FakeOverlapped : public Fake<Interface> {
 public:
  FakeOverlapped(Script& script, HANDLE file)
      : script_(script), requests_(spi::OverlappedRequests::Make(file).value()) {}
  HRESULT STDMETHODCALLTYPE CancelOverlappedRequests() override {
    requests_->FinishAll(StatusCode::kCanceled);
    return S_OK;
  }
  HRESULT STDMETHODCALLTYPE GetOverlappedResult(OVERLAPPED* overlapped, BOOL wait) override {
    static_cast<void>(script_.Answer("GetOverlappedResult"));
    return Hr(spi::OverlappedResult(overlapped, wait != FALSE));
  }

 protected:
  HRESULT Begin(const char* call, OVERLAPPED* overlapped) {
    return script_.Begin(call, requests_, overlapped);
  }
  Script& script_;
  const std::shared_ptr<spi::OverlappedRequests> requests_;
};

// The values that a connector tells after Connect or GetConnectionRequest.
struct PeerValues {
  std::vector<std::uint8_t> data;
  ULONG inbound = 0, outbound = 0;
  Address local, peer;
};

class FakeConnector final : public FakeOverlapped<spi::IND2Connector> {
 public:
  FakeConnector(Script& script, HANDLE file, const PeerValues& values)
      : FakeOverlapped(script, file), values_(values) {}
  HRESULT STDMETHODCALLTYPE Bind(const sockaddr*, ULONG) override { return script_.Answer("Bind"); }
  HRESULT STDMETHODCALLTYPE Connect(IUnknown*, const sockaddr*, ULONG, ULONG, ULONG, const void*, ULONG,
                                    OVERLAPPED* overlapped) override {
    return Begin("Connect", overlapped);
  }
  HRESULT STDMETHODCALLTYPE CompleteConnect(OVERLAPPED* overlapped) override {
    return Begin("CompleteConnect", overlapped);
  }
  HRESULT STDMETHODCALLTYPE Accept(IUnknown*, ULONG, ULONG, const void*, ULONG,
                                   OVERLAPPED* overlapped) override {
    return Begin("Accept", overlapped);
  }
  HRESULT STDMETHODCALLTYPE Reject(const void*, ULONG) override { return script_.Answer("Reject"); }
  HRESULT STDMETHODCALLTYPE GetReadLimits(ULONG* inbound, ULONG* outbound) override {
    *inbound = values_.inbound;
    *outbound = values_.outbound;
    return S_OK;
  }
  HRESULT STDMETHODCALLTYPE GetPrivateData(void* data, ULONG* length) override {
    std::copy(values_.data.begin(), values_.data.end(), static_cast<std::uint8_t*>(data));
    *length = static_cast<ULONG>(values_.data.size());
    return S_OK;
  }
  HRESULT STDMETHODCALLTYPE GetLocalAddress(sockaddr* address, ULONG* length) override {
    *length = static_cast<ULONG>(values_.local.ToSockaddr(address));
    return S_OK;
  }
  HRESULT STDMETHODCALLTYPE GetPeerAddress(sockaddr* address, ULONG* length) override {
    *length = static_cast<ULONG>(values_.peer.ToSockaddr(address));
    return S_OK;
  }
  HRESULT STDMETHODCALLTYPE NotifyDisconnect(OVERLAPPED* overlapped) override {
    return Begin("NotifyDisconnect", overlapped);
  }
  HRESULT STDMETHODCALLTYPE Disconnect(OVERLAPPED* overlapped) override {
    return Begin("Disconnect", overlapped);
  }

 private:
  const PeerValues& values_;
};

class FakeListener final : public FakeOverlapped<spi::IND2Listener> {
 public:
  using FakeOverlapped::FakeOverlapped;
  HRESULT STDMETHODCALLTYPE Bind(const sockaddr*, ULONG) override { return script_.Answer("Bind"); }
  HRESULT STDMETHODCALLTYPE Listen(ULONG) override { return script_.Answer("Listen"); }
  HRESULT STDMETHODCALLTYPE GetLocalAddress(sockaddr*, ULONG*) override { return E_NOTIMPL; }
  HRESULT STDMETHODCALLTYPE GetConnectionRequest(IUnknown*, OVERLAPPED* overlapped) override {
    return Begin("GetConnectionRequest", overlapped);
  }
};

class FakeNdQueue final : public FakeOverlapped<spi::IND2CompletionQueue> {
 public:
  using FakeOverlapped::FakeOverlapped;
  HRESULT STDMETHODCALLTYPE GetNotifyAffinity(USHORT*, KAFFINITY*) override { return E_NOTIMPL; }
  HRESULT STDMETHODCALLTYPE Resize(ULONG) override { return script_.Answer("Resize"); }
  HRESULT STDMETHODCALLTYPE Notify(ULONG, OVERLAPPED* overlapped) override {
    return Begin("Notify", overlapped);
  }
  ULONG STDMETHODCALLTYPE GetResults(spi::RequestResult* results, ULONG count) override {
    std::lock_guard lock(mutex);
    ULONG filled = 0;
    for (; filled < count && !done.empty(); done.pop_front()) results[filled++] = done.front();
    return filled;
  }
  std::mutex mutex;
  std::deque<spi::RequestResult> done;
};

class FakeNdPair final : public Fake<spi::IND2QueuePair> {
 public:
  explicit FakeNdPair(Script& script) : script_(script) {}
  HRESULT STDMETHODCALLTYPE Flush() override { return script_.Answer("Flush"); }
  HRESULT STDMETHODCALLTYPE Send(void*, const Sge*, ULONG, ULONG) override { return script_.Answer("Send"); }
  HRESULT STDMETHODCALLTYPE Receive(void*, const Sge*, ULONG) override { return script_.Answer("Receive"); }
  HRESULT STDMETHODCALLTYPE Bind(void*, IUnknown*, IUnknown*, const void*, SIZE_T, ULONG) override {
    return script_.Answer("BindWindow");
  }
  HRESULT STDMETHODCALLTYPE Invalidate(void*, IUnknown*, ULONG) override {
    return script_.Answer("Invalidate");
  }
  HRESULT STDMETHODCALLTYPE Read(void*, const Sge*, ULONG, UINT64, UINT32, ULONG) override {
    return script_.Answer("Read");
  }
  HRESULT STDMETHODCALLTYPE Write(void*, const Sge*, ULONG, UINT64, UINT32, ULONG) override {
    return script_.Answer("Write");
  }

 private:
  Script& script_;
};

class FakeNdRegion final : public FakeOverlapped<spi::IND2MemoryRegion> {
 public:
  using FakeOverlapped::FakeOverlapped;
  HRESULT STDMETHODCALLTYPE Register(const void*, SIZE_T, ULONG, OVERLAPPED* overlapped) override {
    return Begin("Register", overlapped);
  }
  HRESULT STDMETHODCALLTYPE Deregister(OVERLAPPED* overlapped) override {
    return Begin("Deregister", overlapped);
  }
  UINT32 STDMETHODCALLTYPE GetLocalToken() override { return 7; }
  UINT32 STDMETHODCALLTYPE GetRemoteToken() override { return 8; }
};

class FakeAdapter final : public Fake<spi::IND2Adapter> {
 public:
  FakeAdapter(Script& script, const PeerValues& values) : script_(script), values_(values) {}
  HRESULT STDMETHODCALLTYPE CreateOverlappedFile(HANDLE* file) override {
    *file = spi::OpenWaitFile().release();
    return S_OK;
  }
  HRESULT STDMETHODCALLTYPE Query(spi::AdapterProperties*, ULONG*) override { return E_NOTIMPL; }
  HRESULT STDMETHODCALLTYPE QueryAddressList(SOCKET_ADDRESS_LIST*, ULONG*) override { return E_NOTIMPL; }
  HRESULT STDMETHODCALLTYPE CreateCompletionQueue(REFIID, HANDLE file, ULONG, USHORT, KAFFINITY,
                                                  void** made) override {
    queue = new FakeNdQueue(script_, file);
    return Give(static_cast<spi::IND2CompletionQueue*>(queue), made);
  }
  HRESULT STDMETHODCALLTYPE CreateMemoryRegion(REFIID, HANDLE file, void** made) override {
    return Give(static_cast<spi::IND2MemoryRegion*>(new FakeNdRegion(script_, file)), made);
  }
  HRESULT STDMETHODCALLTYPE CreateMemoryWindow(REFIID, void**) override { return Hr(StatusCode::kNoMemory); }
  HRESULT STDMETHODCALLTYPE CreateSharedReceiveQueue(REFIID, HANDLE, ULONG, ULONG, ULONG, USHORT, KAFFINITY,
                                                     void**) override {
    return E_OUTOFMEMORY;
  }
  HRESULT STDMETHODCALLTYPE CreateQueuePair(REFIID, IUnknown*, IUnknown*, void* context, ULONG, ULONG, ULONG,
                                            ULONG, ULONG, void** made) override {
    pair_context = context;
    return Give(static_cast<spi::IND2QueuePair*>(new FakeNdPair(script_)), made);
  }
  HRESULT STDMETHODCALLTYPE CreateQueuePairWithSrq(REFIID, IUnknown*, IUnknown*, IUnknown*, void*, ULONG,
                                                   ULONG, ULONG, void**) override {
    return E_NOTIMPL;
  }
  HRESULT STDMETHODCALLTYPE CreateConnector(REFIID, HANDLE file, void** made) override {
    return Give(static_cast<spi::IND2Connector*>(new FakeConnector(script_, file, values_)), made);
  }
  HRESULT STDMETHODCALLTYPE CreateListener(REFIID, HANDLE file, void** made) override {
    return Give(static_cast<spi::IND2Listener*>(new FakeListener(script_, file)), made);
  }

  FakeNdQueue* queue = nullptr;  // The newest.
  void* pair_context = nullptr;

 private:
  static HRESULT Give(void* object, void** made) {
    *made = object;
    return S_OK;
  }
  Script& script_;
  const PeerValues& values_;
};

}  // namespace nd::provider::networkdirect
