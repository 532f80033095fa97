// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/fault_guard.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/os/library_thread.h"
#include "base/os/memory_fault.h"
#include "verbs-lib/libc_next.h"

namespace nd::verbs_lib {

namespace internal {
thread_local constinit int accesses = 0;
}

namespace {

// The registered ranges, for a signal handler: it takes no lock, and nothing of it is ever freed.
struct Chunk {
  struct Range {
    std::atomic<std::uintptr_t> begin{0}, end{0};  // end 0: free.
  };
  std::array<Range, 512> ranges;
  std::atomic<Chunk*> next{nullptr};
};
Chunk first_chunk;

bool Guarded(std::uintptr_t address) {
  for (const Chunk* chunk = &first_chunk; chunk != nullptr; chunk = chunk->next.load()) {
    for (const Chunk::Range& range : chunk->ranges) {
      if (address >= range.begin.load() && address < range.end.load()) return true;
    }
  }
  return false;
}

using Action = struct sigaction;

// What the program wants to be done. The former ones are never freed, because a handler may be using them.
std::atomic<const Action*> kept_segv{nullptr}, kept_bus{nullptr};

std::atomic<const Action*>* KeptFor(int signal) {
  if (signal == SIGSEGV) return &kept_segv;
  return signal == SIGBUS ? &kept_bus : nullptr;
}

bool HasHandler(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);  // NOLINT: macros with casts.
}

// Puts an empty page in the place of the one that is missing. The address was in it, so a mapping that
// another thread made meanwhile is as good.
bool Repair(int signal, int code, std::uintptr_t address) {
  const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(address & ~(size - 1));
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  if (signal == SIGSEGV && code == SEGV_ACCERR) return mprotect(page, size, kBoth) == 0;
  // SIGBUS: the file behind the mapping became shorter.
  const int how = signal == SIGSEGV ? MAP_FIXED_NOREPLACE : MAP_FIXED;
  return mmap(page, size, kBoth, MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0) != MAP_FAILED || errno == EEXIST;
}

bool IsOurs(int signal, const siginfo_t& info, const Action& kept) {
  if (info.si_code <= 0 || (internal::accesses == 0 && !os::InLibraryThread())) return false;
  // A program that protects its pages has a handler that unprotects them.
  if (signal == SIGSEGV && info.si_code == SEGV_ACCERR && HasHandler(kept)) return false;
  return Guarded(reinterpret_cast<std::uintptr_t>(info.si_addr));
}

void LeaveToProgram(int signal, siginfo_t* info, void* context, const Action& kept) {
  if (HasHandler(kept)) {
    pthread_sigmask(SIG_BLOCK, &kept.sa_mask, nullptr);
    if ((kept.sa_flags & SA_SIGINFO) != 0) return kept.sa_sigaction(signal, info, context);
    return kept.sa_handler(signal);
  }
  const bool sent = info->si_code <= 0;
  if (sent && kept.sa_handler == SIG_IGN) return;  // NOLINT: a macro with a cast.
  // The instruction faults again, or the signal arrives again, and ends the process as without this library.
  Action plain{};
  plain.sa_handler = SIG_DFL;
  NDBROKER_NEXT(sigaction)(signal, &plain, nullptr);
  if (sent) raise(signal);
}

void OnFault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const Action& kept = *KeptFor(signal)->load();
  const bool repaired = IsOurs(signal, *info, kept) && os::RecordMemoryFault() &&
                        Repair(signal, info->si_code, reinterpret_cast<std::uintptr_t>(info->si_addr));
  if (!repaired) LeaveToProgram(signal, info, context, kept);
  errno = error;
}

void Install() {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    auto* kept = new Action{};
    NDBROKER_NEXT(sigaction)(signal, nullptr, kept);
    KeptFor(signal)->store(kept);
    Action ours{};
    ours.sa_sigaction = OnFault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    NDBROKER_NEXT(sigaction)(signal, &ours, nullptr);
  }
}

}  // namespace

void GuardMemory(const void* address, std::size_t length) {
  if (kept_segv.load() == nullptr) Install();
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (Chunk* chunk = &first_chunk;; chunk = chunk->next.load()) {
    for (Chunk::Range& range : chunk->ranges) {
      if (range.end.load() != 0) continue;
      range.begin.store(begin);
      range.end.store(begin + length);
      return;
    }
    if (chunk->next.load() == nullptr) chunk->next.store(new Chunk);
  }
}

void UnguardMemory(const void* address, std::size_t length) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (Chunk* chunk = &first_chunk; chunk != nullptr; chunk = chunk->next.load()) {
    for (Chunk::Range& range : chunk->ranges) {
      if (range.begin.load() != begin || range.end.load() != begin + length) continue;
      range.end.store(0);
      return;
    }
  }
}

bool KeepAction(int signal, const struct sigaction* wanted, struct sigaction* former) {
  auto* kept = KeptFor(signal);
  if (kept == nullptr || kept->load() == nullptr) return false;
  const Action* before = kept->load();
  if (former != nullptr) *former = *before;
  if (wanted != nullptr) kept->store(new Action(*wanted));
  return true;
}

}  // namespace nd::verbs_lib
