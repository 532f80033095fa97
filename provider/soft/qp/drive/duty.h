// SPDX-License-Identifier: Apache-2.0
// Who moves the data of one queue pair when its application does not: the scheduler's state of a queue pair.
//
// Three parties move data. The application does when it polls, posts or returns from Wait. For the rest the
// process's progress thread watches the connection. An application that polls would only be disturbed by
// that thread, so the thread puts such a queue pair off and comes back a millisecond later (with many
// connections some milliseconds), or at once when Notify says that the application is about to sleep.
//
// A visit that finds the queue pair put off and polled again changes nothing. It takes no lock, which belongs
// to the application's thread (biased_lock.h).
//
// The invariant, which duty_test.cc proves for all interleavings: whenever something is left to do, somebody
// is awake who will do it, or somebody sleeps whom the peer's next wake-up reaches. Each party that moved
// data therefore reports what it left undone, and a sleeper's wake-up that another party has taken counts as
// undone work.
//
// On a device without a progress thread the watchers are the threads in Wait and the event loops behind
// Notify: "call" wakes all of them, and kCalled means that nobody relies on being woken.
//
// With a progress thread an event loop can be woken by the doorbells too (direct_policy.h). It changes no
// state here: a queue pair that was put off meanwhile is served a millisecond later if its application does
// not come.
#pragma once

#include <cstdint>

namespace nd::provider::soft {

enum class Duty : std::uint8_t {
  kNobody,    // There is no connection.
  kWatching,  // The watcher sleeps until its Interest comes true.
  kCalled,    // The watcher was called, or its time has come; it visits soon.
  kVisiting,  // The progress thread moves data, or has done so and is arming.
  kPutOff,    // The application polls. The progress thread comes back by itself.
};

enum class DutyEvent : std::uint8_t {
  kAttach,      // The connection was attached.
  kLeftUndone,  // Another party moved data, and the watched Interest does not cover the remaining work.
  kVisit,       // The progress thread comes, and the application does not poll.
  kLeave,       // The progress thread comes, and leaves the queue pair to the application that polls.
  kNotify,      // The application is about to sleep.
  kSleep,       // The watcher has armed the transport, or it was armed at Attach, and there is nothing to do.
  kGoOn,        // The progress thread has armed the transport and found something to do: it comes again.
  kDetach,      // The connection was detached.
};

// Rows: DutyEvent. Columns: Duty. An event that cannot happen in a state does not change it.
inline constexpr Duty kDutyTable[8][5] = {
    // clang-format off
    // kNobody         kWatching         kCalled          kVisiting         kPutOff
    {Duty::kCalled,  Duty::kWatching, Duty::kCalled,   Duty::kVisiting, Duty::kPutOff},   // kAttach
    {Duty::kNobody,  Duty::kCalled,   Duty::kCalled,   Duty::kVisiting, Duty::kPutOff},   // kLeftUndone
    {Duty::kNobody,  Duty::kVisiting, Duty::kVisiting, Duty::kVisiting, Duty::kVisiting}, // kVisit
    {Duty::kNobody,  Duty::kPutOff,   Duty::kPutOff,   Duty::kPutOff,   Duty::kPutOff},   // kLeave
    {Duty::kNobody,  Duty::kWatching, Duty::kCalled,   Duty::kVisiting, Duty::kCalled},   // kNotify
    {Duty::kNobody,  Duty::kWatching, Duty::kWatching, Duty::kWatching, Duty::kPutOff},   // kSleep
    {Duty::kNobody,  Duty::kWatching, Duty::kCalled,   Duty::kCalled,   Duty::kPutOff},   // kGoOn
    {Duty::kNobody,  Duty::kNobody,   Duty::kNobody,   Duty::kNobody,   Duty::kNobody},   // kDetach
    // clang-format on
};

// Returns true when the watcher must be called, because it sleeps or would come too late.
constexpr bool Step(Duty* duty, DutyEvent event) {
  const Duty before = *duty;
  *duty = kDutyTable[static_cast<int>(event)][static_cast<int>(before)];
  return *duty == Duty::kCalled && (before == Duty::kWatching || before == Duty::kPutOff);
}

}  // namespace nd::provider::soft
