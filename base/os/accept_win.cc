// SPDX-License-Identifier: Apache-2.0
#include "base/os/accept.h"

#include <cerrno>

#include "base/os/object_win.h"
#include "base/os/pipe_listener_win.h"

namespace nd::os {
namespace {

Accepted AcceptPipe(PipeListener& listener) {
  UniqueFd fd;
  if (auto pipe = listener.Accept()) fd.reset(PutObject(std::move(pipe)));
  if (fd) return {Accepted::Result::kConnection, std::move(fd), 0};
  if (errno == EAGAIN) return {};
  const bool exhausted = errno == EMFILE || errno == ENOBUFS || errno == ENOMEM;
  return {exhausted ? Accepted::Result::kExhausted : Accepted::Result::kFailed, {}, errno};
}

}  // namespace

Accepted Accept(int listener) {
  const auto object = FindObject(listener);
  if (object && object->kind() == Object::Kind::kPipeListener) {
    return AcceptPipe(static_cast<PipeListener&>(*object));
  }
  const auto socket = FindAs<SocketObject>(listener);
  if (!socket) return {Accepted::Result::kFailed, {}, errno};
  // A bound, because a peer can end connections as fast as they are skipped here.
  for (int tries = 0; tries < 16; ++tries) {
    const SOCKET accepted = ::accept(socket->get(), nullptr, nullptr);
    if (accepted != INVALID_SOCKET) {
      u_long yes = 1;
      ::ioctlsocket(accepted, static_cast<long>(FIONBIO), &yes);
      ::SetHandleInformation(reinterpret_cast<HANDLE>(accepted), HANDLE_FLAG_INHERIT, 0);
      UniqueFd fd(PutObject(std::make_shared<SocketObject>(accepted, SocketObject::Use::kNetwork)));
      if (fd) return {Accepted::Result::kConnection, std::move(fd), 0};
      return {Accepted::Result::kExhausted, {}, errno};
    }
    SetErrno(static_cast<DWORD>(::WSAGetLastError()));
    switch (errno) {
      case EINTR:
        return {Accepted::Result::kNone, {}, EINTR};
      case ECONNABORTED:
      case ECONNRESET:
        continue;
      case EAGAIN:
        return {};
      case EMFILE:
      case ENOBUFS:
      case ENOMEM:
        return {Accepted::Result::kExhausted, {}, errno};
      default:
        return {Accepted::Result::kFailed, {}, errno};
    }
  }
  return {};
}

void SpareDescriptor::Refill() {
  if (fd_) return;
  Handle event(::CreateEventW(nullptr, TRUE, FALSE, nullptr));
  if (event) fd_.reset(PutObject(std::make_shared<EventObject>(std::move(event))));
}

UniqueFd SpareDescriptor::AcceptToRefuse(int listener) {
  if (!fd_) return {};
  fd_.reset();
  return Accept(listener).fd;
}

}  // namespace nd::os
