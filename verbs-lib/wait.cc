// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <cerrno>

namespace nd::verbs_lib {
namespace {

// A system call that waits on a device goes on behind a handler that was installed with SA_RESTART. poll()
// never does, and does not say which signal it was; so it goes on when all handlers have that flag.
// Handlers of faults, as programs that report their crashes have them, run in no wait.
bool AllHandlersRestart() {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL) continue;
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0) continue;
    const bool handled =
        (action.sa_flags & SA_SIGINFO) != 0 ||
        (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);  // NOLINT: macros with casts.
    if (handled && (action.sa_flags & SA_RESTART) == 0) return false;
  }
  return true;
}

}  // namespace

int WaitReadable(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return -1;
  if ((flags & O_NONBLOCK) != 0) {
    errno = EAGAIN;
    return -1;
  }
  for (;;) {
    pollfd wanted{fd, POLLIN, 0};
    if (poll(&wanted, 1, -1) >= 0) {
      if ((wanted.revents & POLLNVAL) == 0) return 0;
      errno = EBADF;
      return -1;
    }
    if (errno != EINTR) return -1;
    if (!AllHandlersRestart()) {
      errno = EINTR;
      return -1;
    }
  }
}

}  // namespace nd::verbs_lib
