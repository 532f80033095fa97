// SPDX-License-Identifier: Apache-2.0
// The interface of the AFD driver, as Winsock's own libraries and other event loops use it. Any thread.
#pragma once

#include <windows.h>

#include <winternl.h>

#include "base/os/object_win.h"

namespace nd::os {

inline constexpr ULONG kAfdPoll = 0x00012024;

// The question of kAfdPoll, and its answer.
struct AfdPollInfo {
  LARGE_INTEGER timeout;
  ULONG count;
  ULONG exclusive;
  HANDLE socket;
  ULONG events;
  NTSTATUS status;
};

// Returns a file on which polls of sockets wait; empty when the system refuses.
Handle OpenAfd();

}  // namespace nd::os
