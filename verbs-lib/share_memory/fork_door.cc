// SPDX-License-Identifier: Apache-2.0
// fork() by a thread whose stack is a block. A child has no block until its copy is put in place.
//
// The stack of a coroutine: fork() runs on another stack, so that the child has one, and the copy is that of
// a stack on which nobody runs. The stack that a program makes for a thread also has the thread's own
// variables, which a child uses at once: it stops being a block before the thread begins.
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <new>

#include "verbs-lib/export.h"
#include "verbs-lib/libc_next.h"
#include "verbs-lib/share_memory/blocks.h"

namespace {

// The fork handlers of the program run on it, too.
constexpr std::size_t kStack = std::size_t{1} << 20, kPage = 4096;

struct Fork {
  ucontext_t caller, other;
  pid_t result;
  int error;
};
static_assert(sizeof(Fork) <= kPage);

thread_local constinit Fork* current __attribute__((tls_model("initial-exec"))) = nullptr;

void Run() {
  Fork* const fork_here = current;
  fork_here->result = NDBROKER_NEXT(fork)();
  fork_here->error = errno;
}

pid_t ForkOnAnotherStack() {
  // A page for the contexts, one that ends the stack, and the stack.
  void* const place = mmap(nullptr, 2 * kPage + kStack, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (place == MAP_FAILED) return -1;
  std::byte* const bytes = static_cast<std::byte*>(place);
  mprotect(bytes + kPage, kPage, PROT_NONE);
  auto* const turn = new (place) Fork{};
  getcontext(&turn->other);
  turn->other.uc_stack.ss_sp = bytes + 2 * kPage;
  turn->other.uc_stack.ss_size = kStack;
  turn->other.uc_link = &turn->caller;
  makecontext(&turn->other, Run, 0);
  current = turn;
  swapcontext(&turn->caller, &turn->other);
  // Parent and child go on here, each on its own stack.
  const pid_t result = turn->result;
  const int error = turn->error;
  munmap(place, 2 * kPage + kStack);
  errno = error;
  return result;
}

}  // namespace

NDBROKER_PUBLIC int pthread_attr_setstack(pthread_attr_t* attributes, void* stack,
                                          std::size_t size) noexcept {
  nd::share_memory::MakeOrdinary(stack, size);
  return NDBROKER_NEXT(pthread_attr_setstack)(attributes, stack, size);
}

NDBROKER_PUBLIC pid_t fork() noexcept {
  const bool on_block = nd::share_memory::IsShared(__builtin_frame_address(0), 1);
  return on_block ? ForkOnAnotherStack() : NDBROKER_NEXT(fork)();
}
