// SPDX-License-Identifier: Apache-2.0
// One end of a named pipe of messages: the socket of kind kMessages on Windows. Any thread; one reader and
// one writer at a time wait for each other.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/os/object_win.h"

namespace nd::os {

class PipeObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kPipe;

  // Descriptors cross processes by DuplicateHandle, which needs a handle of the other process. The end that
  // has one puts handles into the other process and fetches handles from there. Its peer needs no right to
  // the process of this end.
  enum class Carrier : std::uint8_t {
    kNobody,  // No descriptor can cross.
    kHere,    // `peer` is the process of the other end.
    kThere,   // The other end does it.
  };
  // `pipe` was opened for overlapped operations.
  static std::shared_ptr<PipeObject> Make(Handle pipe, Carrier carrier, Handle peer);
  ~PipeObject() override;

  // Not while another thread may call ShutDown().
  HANDLE get() const { return pipe_.get(); }
  Carrier carrier() const { return carrier_; }
  HANDLE peer() const { return peer_.get(); }

  // Sends the pieces as one message, which is not empty. False with EAGAIN: the peer has not taken the
  // messages before it; EPIPE: the other end is closed. A message in flight is lost when this end closes.
  bool Send(std::span<const std::byte> head, std::span<const std::byte> body);

  // Receives one message, of which at most `most` bytes are kept. False with EAGAIN: there is none; EPIPE:
  // the other end is closed, and everything that it sent has been read.
  bool Receive(std::size_t most, std::vector<std::byte>* message, bool* too_long);
  // Closes the connection; every later call fails with EPIPE, and callers that wait return.
  void ShutDown();
  // As MayHaveMessage() of socket.h.
  bool MayHaveMessage();
  // Returns when Receive() has a result.
  void WaitUntilReadable();

  std::uint32_t Ready() override;
  int Signals(std::uint32_t wanted, HANDLE (&handles)[2]) override;

 private:
  PipeObject(Handle pipe, Carrier carrier, Handle peer)
      : Object(kKind), pipe_(std::move(pipe)), carrier_(carrier), peer_(std::move(peer)) {}
  bool Writable() const;
  // The bytes that wait, and those of the first message. False: the other end is closed and nothing waits.
  // With read_mutex_ held.
  bool Peek(DWORD* waiting, DWORD* first) const;
  // A read of no bytes ends when there is a message, and leaves the message there.
  void AskForMessage();
  // The system writes the end of that read to memory.
  bool AsksStill() const { return asking_ && !HasOverlappedIoCompleted(&asked_); }

  Handle pipe_;  // Changed once, with both mutexes held.
  const Carrier carrier_;
  const Handle peer_;
  std::mutex read_mutex_, write_mutex_;
  Handle message_event_, read_event_, written_event_;
  OVERLAPPED asked_{}, written_{};
  bool asking_ = false;
  unsigned looks_ = 0;
  std::vector<std::byte> outgoing_;  // Of the write in flight.
};

// The rights that a client needs. The right to make further ends of the pipe is not among them.
inline constexpr DWORD kClientOfPipe = FILE_GENERIC_READ | FILE_WRITE_DATA | FILE_WRITE_ATTRIBUTES;

// The name of the pipe that stands for a socket at `path`: the same for each way to write the path.
std::wstring PipeName(const std::string& path);

// Two connected ends in this process. False: errno says why.
bool MakePipePair(std::shared_ptr<PipeObject>* a, std::shared_ptr<PipeObject>* b);

}  // namespace nd::os
