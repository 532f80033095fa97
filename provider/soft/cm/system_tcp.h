// SPDX-License-Identifier: Apache-2.0
// The TCP of this host, on an event loop. Adopts sockets that were made elsewhere: by the previous process,
// or in another network namespace. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/os/call_alarm.h"
#include "base/os/kept_sockets.h"
#include "provider/soft/cm/tcp_host.h"

namespace nd::provider::soft {

class SystemTcp final : public TcpHost {
 public:
  // Both outlive this object.
  SystemTcp(EventLoop& loop, os::KeptSockets& kept);

  // `fd` is a non-blocking TCP socket: bound, or connected.
  std::unique_ptr<TcpSocket> Adopt(UniqueFd fd);
  // `fd` is a non-blocking TCP socket: bound, or listening.
  std::unique_ptr<TcpListener> AdoptListener(UniqueFd fd);
  // The same for sockets that their maker may share: `fd` is bound, or listening. When the maker makes a call
  // wait, it ends after kLongestCall. `waited` is called when a connect() waited; an accept that waited
  // returns kNone with EINTR.
  static constexpr Duration kLongestCall = std::chrono::milliseconds(5);
  std::unique_ptr<TcpSocket> AdoptShared(UniqueFd fd, std::function<void()> waited);
  std::unique_ptr<TcpListener> AdoptSharedListener(UniqueFd fd);

  Time Now() const override;
  EventLoop::TimerId At(Time when, EventLoop::Callback callback) override;
  void Cancel(EventLoop::TimerId timer) override;
  Result<std::unique_ptr<TcpSocket>> SocketFrom(const Address& local) override;
  Result<std::unique_ptr<TcpSocket>> SocketBeside(TcpListener* held, const Address& local) override;
  Result<std::unique_ptr<TcpListener>> Hold(const Address& address) override;
  Result<std::unique_ptr<TcpListener>> Listen(const Address& address) override;
  void RefillSpare() override;
  bool keeps() const override;
  std::unique_ptr<TcpListener> Take(const os::NetworkAddress& address) override;
  bool Keep(const os::NetworkAddress& address, const TcpListener& listener) override;
  void Drop(const os::NetworkAddress& address) override;
  void DropUnclaimed() override;

 private:
  class Socket;
  class Listener;
  class SharedSocket;
  class SharedListener;

  os::CallAlarm& alarm();

  EventLoop& loop_;
  os::KeptSockets& kept_;
  os::SpareDescriptor spare_;
  std::optional<os::CallAlarm> alarm_;  // Made on the loop's thread.
};

}  // namespace nd::provider::soft
