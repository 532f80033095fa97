// SPDX-License-Identifier: Apache-2.0
// A request of the AFD driver that another thread can complete: it waits until a socket of this process is
// readable, and a datagram makes the socket readable. Any thread.
#pragma once

#include <winsock2.h>

#include <windows.h>

#include <winternl.h>

#include <memory>

#include "base/os/object_win.h"

namespace nd::spi {

inline constexpr NTSTATUS kStatusPending = 0x103;

// A file of the AFD driver, on which any thread may wait for any socket of the process. It carries
// overlapped requests; a completion port can be bound to it. Null: the system refuses.
os::Handle OpenWaitFile();

enum class WaitFor : ULONG { kReadable = 0x1, kWritable = 0x4 };

// Two datagram sockets that are connected to each other over 127.0.0.1.
class WakeSockets {
 public:
  // From a pool of the process. Null: the system has no socket left.
  static std::shared_ptr<WakeSockets> Take();
  ~WakeSockets();
  WakeSockets(const WakeSockets&) = delete;
  WakeSockets& operator=(const WakeSockets&) = delete;

  // Starts a request on `file` that completes when the waiting socket is ready: writable it always is,
  // readable after Wake(). `overlapped` follows the rules of Win32: its event, if any, is reset now and set
  // with the completion, and an event with its lowest bit set keeps the completion off a port. Returns
  // kStatusPending, 0 when it has completed already, or the refusal of the system.
  NTSTATUS Start(HANDLE file, OVERLAPPED* overlapped, WaitFor what) const;
  // False: the system refuses; the request stays pending.
  bool Wake() const;
  // kIdle: the last request ended without Wake(). kCompleted: with it. kWoken: perhaps not yet.
  enum class Use { kIdle, kCompleted, kWoken };
  // Returns the sockets to the pool, after the driver has seen the datagram.
  static void Give(std::shared_ptr<WakeSockets> sockets, Use last);

 private:
  WakeSockets() = default;
  bool Make();
  void AwaitDriver() const;
  void Drain() const;

  SOCKET waiting_ = INVALID_SOCKET, waking_ = INVALID_SOCKET;
};

// The event of a request, without the bit that keeps its completion off a port. May be null.
inline HANDLE EventOf(const OVERLAPPED& overlapped) {
  return reinterpret_cast<HANDLE>(reinterpret_cast<ULONG_PTR>(overlapped.hEvent) & ~ULONG_PTR{1});
}

}  // namespace nd::spi
