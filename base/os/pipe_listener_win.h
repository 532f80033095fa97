// SPDX-License-Identifier: Apache-2.0
// A named pipe that waits for clients: the listening socket of kind kMessages on Windows. Any thread; one at
// a time.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/os/access_win.h"
#include "base/os/object_win.h"
#include "base/os/pipe_win.h"

namespace nd::os {

class PipeListener final : public Object {
 public:
  static constexpr Kind kKind = Kind::kPipeListener;

  // Who may connect besides this user, administrators and the system.
  enum class Clients { kOwner, kEveryone };

  // `name`: of PipeName(). Null with EADDRINUSE: another process, or another listener, has the name.
  static std::shared_ptr<PipeListener> Make(const std::wstring& name, Clients clients = Clients::kOwner);
  ~PipeListener() override;

  // The end of the client that waits, with the client's process as the kernel names it. It carries no
  // descriptors if this process has no right to that process. Null with EAGAIN: nobody waits, or the client
  // has gone.
  std::shared_ptr<PipeObject> Accept();

  std::uint32_t Ready() override;
  int Signals(std::uint32_t wanted, HANDLE (&handles)[2]) override;

 private:
  PipeListener(std::wstring name, Clients clients, Handle connected);
  // Makes the end for the next client.
  bool Offer(bool first);

  const std::wstring name_;
  NewAccess access_;
  const Handle connected_;
  std::mutex mutex_;
  Handle next_;
  OVERLAPPED connecting_{};
};

}  // namespace nd::os
