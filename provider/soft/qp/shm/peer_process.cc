// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/peer_process.h"

#include <algorithm>
#include <array>

#include "base/os/random.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kMarkBytes = sizeof(std::uint64_t);

// Different for each connection of this process, and hard to meet by accident.
std::uint64_t NextMark() {
  static std::atomic<std::uint64_t> next = [] {
    std::uint64_t first = 0;
    os::FillWithRandom(std::as_writable_bytes(std::span(&first, 1)));
    return first;
  }();
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  return next.fetch_add(kOdd, std::memory_order_relaxed) | 1;
}

std::size_t LengthOf(std::span<const os::PieceHere> pieces) {
  std::size_t length = 0;
  for (const os::PieceHere& piece : pieces) length += piece.length;
  return length;
}

}  // namespace

bool PeerIdentity::Lives() const {
  if (mark == nullptr) return false;
  std::uint64_t found = 0;
  const os::PieceHere here{&found, kMarkBytes};
  const os::PieceThere there{place, kMarkBytes};
  return os::ReadFromProcess(process, {&here, 1}, {&there, 1}) == kMarkBytes &&
         found == mark->load(std::memory_order_relaxed);
}

PeerProcess::PeerProcess(Segment& shared, int side, bool enabled)
    : mine_(shared.side[side]),
      theirs_(shared.side[1 - side]),
      place_in_segment_(static_cast<std::size_t>(reinterpret_cast<std::byte*>(&mine_.mark) -
                                                 reinterpret_cast<std::byte*>(&shared))),
      state_(enabled && os::HasProcessMemory() ? State::kUnknown : State::kNotReachable) {
  if (state_ == State::kNotReachable) return;
  mine_.mark.store(NextMark(), std::memory_order_relaxed);
  mine_.segment.store(reinterpret_cast<std::uintptr_t>(&shared), std::memory_order_release);
}

bool PeerProcess::Find() {
  const std::uint64_t segment = theirs_.segment.load(std::memory_order_acquire);
  if (segment == 0 || identity_.process == 0) return false;
  identity_.place = segment + place_in_segment_;
  identity_.mark = &mine_.mark;
  state_ = identity_.Lives() ? State::kReachable : State::kNotReachable;
  return state_ == State::kReachable;
}

std::size_t PeerProcess::WithoutMark(std::size_t copied, bool good) {
  if (copied >= kMarkBytes && good) return copied - kMarkBytes;
  state_ = State::kNotReachable;
  return 0;
}

std::size_t PeerProcess::Write(std::span<const os::PieceHere> from, std::uint64_t to) {
  std::array<os::PieceHere, os::kMostPieces> here;
  std::uint64_t mark = mine_.mark.load(std::memory_order_relaxed);
  here[0] = {&mark, kMarkBytes};
  std::copy(from.begin(), from.end(), here.begin() + 1);
  const os::PieceThere there[] = {{identity_.place, kMarkBytes}, {to, LengthOf(from)}};
  return WithoutMark(os::WriteToProcess(identity_.process, {here.data(), from.size() + 1}, there), true);
}

std::size_t PeerProcess::Read(std::span<const os::PieceHere> to, std::uint64_t from) {
  std::array<os::PieceHere, os::kMostPieces> here;
  std::uint64_t found = 0;
  here[0] = {&found, kMarkBytes};
  std::copy(to.begin(), to.end(), here.begin() + 1);
  const os::PieceThere there[] = {{identity_.place, kMarkBytes}, {from, LengthOf(to)}};
  const std::size_t copied = os::ReadFromProcess(identity_.process, {here.data(), to.size() + 1}, there);
  return WithoutMark(copied, found == mine_.mark.load(std::memory_order_relaxed));
}

}  // namespace nd::provider::soft
