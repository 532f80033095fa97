// SPDX-License-Identifier: Apache-2.0
#include "base/os/object_win.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/os/readiness.h"

namespace nd::os {
namespace {

// Smaller numbers are those of the standard streams on other systems.
constexpr std::size_t kFirstNumber = 3;
constexpr std::size_t kMostNumbers = std::size_t{1} << 20;

struct Table {
  std::mutex mutex;
  std::vector<std::shared_ptr<Object>> objects{kFirstNumber};
  std::size_t lowest_free = kFirstNumber;  // No lower number is free.

  static Table& The() {
    static auto* const table = new Table;  // Never destroyed: detached threads use it late.
    return *table;
  }
};

}  // namespace

int PutObject(std::shared_ptr<Object> object) {
  Table& table = Table::The();
  const std::lock_guard lock(table.mutex);
  std::size_t number = table.lowest_free;
  while (number < table.objects.size() && table.objects[number]) ++number;
  if (number == table.objects.size()) {
    if (number == kMostNumbers) {
      errno = EMFILE;
      return -1;
    }
    table.objects.emplace_back();
  }
  table.objects[number] = std::move(object);
  table.lowest_free = number + 1;
  return static_cast<int>(number);
}

std::shared_ptr<Object> FindObject(int fd) {
  Table& table = Table::The();
  const std::lock_guard lock(table.mutex);
  if (fd < 0 || static_cast<std::size_t>(fd) >= table.objects.size() ||
      !table.objects[static_cast<std::size_t>(fd)]) {
    errno = EBADF;
    return nullptr;
  }
  return table.objects[static_cast<std::size_t>(fd)];
}

std::shared_ptr<Object> FindObject(int fd, Object::Kind kind) {
  std::shared_ptr<Object> object = FindObject(fd);
  if (object && object->kind() != kind) {
    errno = ENOTSOCK;
    return nullptr;
  }
  return object;
}

std::shared_ptr<Object> TakeObject(int fd) {
  Table& table = Table::The();
  const std::lock_guard lock(table.mutex);
  if (fd < 0 || static_cast<std::size_t>(fd) >= table.objects.size()) return nullptr;
  const auto number = static_cast<std::size_t>(fd);
  table.lowest_free = std::min(table.lowest_free, number);
  return std::exchange(table.objects[number], nullptr);
}

int DuplicateObject(int fd) {
  std::shared_ptr<Object> object = FindObject(fd);
  return object ? PutObject(std::move(object)) : -1;
}

std::uint32_t EventObject::Ready() {
  return ::WaitForSingleObject(event_.get(), 0) == WAIT_OBJECT_0 ? kReadable : 0;
}

int EventObject::Signals(std::uint32_t wanted, HANDLE (&handles)[2]) {
  if ((wanted & kReadable) == 0) return 0;
  handles[0] = event_.get();
  return 1;
}

void SetErrno(DWORD error) {
  switch (error) {
    case WSAEWOULDBLOCK:
      errno = EAGAIN;
      return;
    case WSAEINPROGRESS:
      errno = EINPROGRESS;
      return;
    case WSAEINTR:
    case WSA_OPERATION_ABORTED:
      errno = EINTR;
      return;
    case WSAEMFILE:
    case ERROR_TOO_MANY_OPEN_FILES:
      errno = EMFILE;
      return;
    case WSAENOBUFS:
    case ERROR_NO_SYSTEM_RESOURCES:
      errno = ENOBUFS;
      return;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
      errno = ENOMEM;
      return;
    case WSAEACCES:
    case ERROR_ACCESS_DENIED:
      errno = EACCES;
      return;
    case WSAEADDRINUSE:
      errno = EADDRINUSE;
      return;
    case WSAEADDRNOTAVAIL:
      errno = EADDRNOTAVAIL;
      return;
    case WSAEAFNOSUPPORT:
      errno = EAFNOSUPPORT;
      return;
    case WSAENOTCONN:
      errno = ENOTCONN;
      return;
    case WSAENETUNREACH:
      errno = ENETUNREACH;
      return;
    case WSAEHOSTUNREACH:
      errno = EHOSTUNREACH;
      return;
    case WSAECONNREFUSED:
      errno = ECONNREFUSED;
      return;
    case WSAECONNABORTED:
      errno = ECONNABORTED;
      return;
    case WSAECONNRESET:
    case ERROR_NETNAME_DELETED:
      errno = ECONNRESET;
      return;
    case WSAETIMEDOUT:
    case ERROR_SEM_TIMEOUT:
      errno = ETIMEDOUT;
      return;
    case WSAESHUTDOWN:
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA:
    case ERROR_PIPE_NOT_CONNECTED:
      errno = EPIPE;
      return;
    case WSAENOTSOCK:
      errno = ENOTSOCK;
      return;
    case ERROR_INVALID_HANDLE:
      errno = EBADF;
      return;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
      errno = ENOENT;
      return;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
      errno = EEXIST;
      return;
    default:
      errno = EINVAL;
  }
}

void StartWinsock() {
  static const bool started = [] {
    WSADATA data;
    return ::WSAStartup(MAKEWORD(2, 2), &data) == 0;
  }();
  if (started) return;
  std::fputs("Winsock 2.2 does not start; no socket can be made\n", stderr);
  std::abort();
}

}  // namespace nd::os
