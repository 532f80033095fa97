// SPDX-License-Identifier: Apache-2.0
// NotifyIpInterfaceChange and NotifyUnicastIpAddressChange would call back on a thread of the system;
// NotifyAddrChange sets an event, which the loop can watch.
#include "base/os/object_win.h"

#include <iphlpapi.h>
#include <ws2tcpip.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/os/readiness.h"
#include "provider/soft/cm/host_addresses.h"

namespace nd::provider::soft {
namespace {

// A request of the system for the next change, and the event that it sets. Ends with its descriptor.
class ChangeEvent final : public os::Object {
 public:
  static std::shared_ptr<ChangeEvent> Make() {
    os::StartWinsock();
    os::Handle event(::CreateEventW(nullptr, /*bManualReset=*/TRUE, /*bInitialState=*/FALSE, nullptr));
    if (!event) return nullptr;
    std::shared_ptr<ChangeEvent> made(new ChangeEvent(std::move(event)));
    return made->Ask() ? made : nullptr;
  }
  ~ChangeEvent() override {
    // The system writes to the structure until the request has ended.
    if (asked_ && ::CancelIPChangeNotify(&request_) != 0) ::WaitForSingleObject(event_.get(), 1000);
  }

  // Requests the next change. False: the system refuses.
  bool Ask() {
    ::ResetEvent(event_.get());
    request_ = {};
    request_.hEvent = event_.get();
    HANDLE system = nullptr;
    const DWORD error = ::NotifyAddrChange(&system, &request_);
    return asked_ = error == ERROR_IO_PENDING || error == NO_ERROR;
  }

  std::uint32_t Ready() override {
    return ::WaitForSingleObject(event_.get(), 0) == WAIT_OBJECT_0 ? os::kReadable : 0;
  }
  int Signals(std::uint32_t wanted, HANDLE (&handles)[2]) override {
    if ((wanted & os::kReadable) == 0) return 0;
    handles[0] = event_.get();
    return 1;
  }

 private:
  explicit ChangeEvent(os::Handle event) : Object(Kind::kEvent), event_(std::move(event)) {}

  const os::Handle event_;
  OVERLAPPED request_{};
  bool asked_ = false;
};

}  // namespace

bool IsLinkLocal(const Address& address) {
  const std::string_view ip = address.ip();
  return ip.size() == 16 && static_cast<unsigned char>(ip[0]) == 0xFE &&
         (static_cast<unsigned char>(ip[1]) & 0xC0) == 0x80;
}

std::vector<Address> ListHostAddresses() {
  std::vector<Address> addresses;
  constexpr ULONG kFlags = GAA_FLAG_SKIP_ANYCAST | GAA_FLAG_SKIP_MULTICAST | GAA_FLAG_SKIP_DNS_SERVER;
  std::vector<std::byte> room(16 * 1024);
  ULONG error = ERROR_BUFFER_OVERFLOW;
  // The list may grow between two calls.
  for (int tries = 0; tries < 8 && error == ERROR_BUFFER_OVERFLOW; ++tries) {
    auto size = static_cast<ULONG>(room.size());
    error = ::GetAdaptersAddresses(AF_UNSPEC, kFlags, nullptr,
                                   reinterpret_cast<IP_ADAPTER_ADDRESSES*>(room.data()), &size);
    if (error == ERROR_BUFFER_OVERFLOW) room.resize(std::max<std::size_t>(size, 2 * room.size()));
  }
  if (error != NO_ERROR) return addresses;
  for (auto* adapter = reinterpret_cast<const IP_ADAPTER_ADDRESSES*>(room.data()); adapter != nullptr;
       adapter = adapter->Next) {
    if (adapter->OperStatus != IfOperStatusUp) continue;
    for (auto* each = adapter->FirstUnicastAddress; each != nullptr; each = each->Next) {
      const Address address = Address::FromSockaddr(each->Address.lpSockaddr,
                                                    static_cast<std::size_t>(each->Address.iSockaddrLength))
                                  .WithPort(0);
      if (address.well_formed() && !IsLinkLocal(address)) addresses.push_back(address);
    }
  }
  std::ranges::sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

HostAddressWatch::HostAddressWatch(EventLoop& loop, std::function<void()> changed)
    : loop_(loop), changed_(std::move(changed)) {
  std::shared_ptr<ChangeEvent> event = ChangeEvent::Make();
  if (!event) return;
  fd_.reset(os::PutObject(std::move(event)));
  if (fd_ && !loop_.Add(fd_.get(), os::kReadable, [this](std::uint32_t) { Drain(); })) fd_.reset();
}

HostAddressWatch::~HostAddressWatch() {
  if (fd_) loop_.Remove(fd_.get());
}

void HostAddressWatch::Drain() {
  // Before the addresses are read, so that no change is lost in between.
  if (!std::static_pointer_cast<ChangeEvent>(os::FindObject(fd_.get()))->Ask()) {
    loop_.Remove(fd_.get());
    fd_.reset();
  }
  changed_();
}

}  // namespace nd::provider::soft
