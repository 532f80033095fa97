// SPDX-License-Identifier: Apache-2.0
// Descriptors on Windows: a number of this process for a socket, a pipe, an event, a section, a file or a set
// of watched descriptors. UniqueFd owns the number; the object ends with its last number.
//
// Any thread. The lowest free number is given, as on other systems.
#pragma once

#include <windows.h>
#include <winsock2.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace nd::os {

class WatchPort;

class Object {
 public:
  enum class Kind { kSocket, kEvent, kSection, kPipe, kPipeListener, kWatchSet, kFile };

  explicit Object(Kind kind) : kind_(kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  Kind kind() const { return kind_; }

  // The readiness now, in bits of readiness.h, without waiting. Sockets are asked through AFD instead
  // (watch_port_win.h).
  virtual std::uint32_t Ready() { return 0; }
  // Fills in the handles that are signalled when Ready() may have a bit of `wanted`, and returns their
  // number. They stay signalled until the cause is gone.
  virtual int Signals(std::uint32_t /*wanted*/, HANDLE (&/*handles*/)[2]) { return 0; }

  std::vector<WatchPort*> watched_by;  // Guarded by the mutex of watch_port_win.cc.

 private:
  const Kind kind_;
};

// -1 with errno EMFILE: no number is left.
int PutObject(std::shared_ptr<Object> object);
// Null with errno EBADF: no descriptor has this number.
std::shared_ptr<Object> FindObject(int fd);
// Frees the number; for CloseDescriptor() (watch_port_win.h). Returns null when it was free already.
std::shared_ptr<Object> TakeObject(int fd);
// A second number for the same object; -1 with errno set.
int DuplicateObject(int fd);

// Null with errno ENOTSOCK: the descriptor is of another kind.
std::shared_ptr<Object> FindObject(int fd, Object::Kind kind);
template <typename T>
std::shared_ptr<T> FindAs(int fd) {
  return std::static_pointer_cast<T>(FindObject(fd, T::kKind));
}

// An owned HANDLE.
class Handle {
 public:
  Handle() = default;
  explicit Handle(HANDLE handle) : handle_(handle == INVALID_HANDLE_VALUE ? nullptr : handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_ != nullptr) ::CloseHandle(handle_);
  }
  HANDLE get() const { return handle_; }
  HANDLE release() { return std::exchange(handle_, nullptr); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  HANDLE handle_ = nullptr;
};

class EventObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kEvent;
  explicit EventObject(Handle event) : Object(kKind), event_(std::move(event)) {}
  HANDLE get() const { return event_.get(); }
  std::uint32_t Ready() override;
  int Signals(std::uint32_t wanted, HANDLE (&handles)[2]) override;

 private:
  const Handle event_;
};

class SectionObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kSection;
  explicit SectionObject(Handle section) : Object(kKind), section_(std::move(section)) {}
  HANDLE get() const { return section_.get(); }

 private:
  const Handle section_;
};

class FileObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kFile;
  explicit FileObject(Handle file) : Object(kKind), file_(std::move(file)) {}
  HANDLE get() const { return file_.get(); }

 private:
  const Handle file_;
};

class SocketObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kSocket;
  // kLocalPair: one end of MakeStreamPair(). When its peer has gone, both directions are closed.
  enum class Use : std::uint8_t { kNetwork, kLocalPair };
  SocketObject(SOCKET socket, Use use) : Object(kKind), socket_(socket), use_(use), number_(++last_number) {}
  ~SocketObject() override {
    if (socket_ != INVALID_SOCKET) ::closesocket(socket_);
  }
  SOCKET get() const { return socket_; }
  Use use() const { return use_; }
  // No other socket of this process ever has it.
  std::uint64_t number() const { return number_; }
  // The caller owns the socket from now on. Not while another thread uses this object.
  SOCKET Release() { return std::exchange(socket_, INVALID_SOCKET); }

 private:
  inline static std::atomic<std::uint64_t> last_number{0};
  SOCKET socket_;
  const Use use_;
  const std::uint64_t number_;
};

// Sets errno to the number of <cerrno> for an error of the system (GetLastError, WSAGetLastError).
void SetErrno(DWORD error);

// Starts Winsock, once for the process. Called before the first socket is made.
void StartWinsock();

}  // namespace nd::os
