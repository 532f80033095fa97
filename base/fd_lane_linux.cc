// SPDX-License-Identifier: Apache-2.0
// Descriptors by SCM_RIGHTS, with strict counts.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/fd_lane.h"
#include "base/lane_sender.h"

namespace nd {
namespace {

union ControlBuffer {
  cmsghdr align;
  char data[CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage) + CMSG_SPACE(sizeof(ucred))];
};

constexpr std::size_t kMostAtOnce = 32;  // Of SendInOrder().

Status CannotSend(int error) {
  switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS:
      return {StatusCode::kDeviceBusy, "the receiver does not take its messages", Detail::kTransport, error};
    default:
      return {StatusCode::kConnectionDisconnected, std::strerror(error), Detail::kTransport, error};
  }
}

// Appends one control message to those of `header`.
void AddControl(msghdr* header, ControlBuffer* control, int type, std::span<const std::byte> content) {
  auto* cmsg = reinterpret_cast<cmsghdr*>(control->data + header->msg_controllen);
  cmsg->cmsg_level = SOL_SOCKET;
  cmsg->cmsg_type = type;
  cmsg->cmsg_len = CMSG_LEN(content.size());
  std::memcpy(CMSG_DATA(cmsg), content.data(), content.size());
  header->msg_control = control->data;
  header->msg_controllen += CMSG_SPACE(content.size());
}

// `sender`: may be null.
Status SendOne(int socket, std::span<const std::byte> message, std::span<const int> fds,
               const ucred* sender) {
  if (fds.size() > kMaxFdsPerMessage)
    return {StatusCode::kInvalidParameter, "too many descriptors in a message"};
  iovec io{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  if (!fds.empty()) AddControl(&header, &control, SCM_RIGHTS, std::as_bytes(fds));
  if (sender != nullptr) AddControl(&header, &control, SCM_CREDENTIALS, std::as_bytes(std::span(sender, 1)));
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 ? Status::Ok() : CannotSend(errno);
}

// `sender`: null when the socket does not tell it.
Result<FdMessage> ReceiveOne(int socket, std::span<std::byte> buffer, bool blocking, std::uint32_t* sender,
                             std::vector<UniqueFd>* of_wrong = nullptr) {
  iovec io{buffer.data(), buffer.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  header.msg_control = control.data;
  // Room for the agreed descriptors and not more, so that others are refused.
  header.msg_controllen = CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage);
  if (sender != nullptr) header.msg_controllen += CMSG_SPACE(sizeof(ucred));
  ssize_t got;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (blocking ? 0 : MSG_DONTWAIT));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN) return Status{StatusCode::kDeviceBusy, "no message waits"};
    return Status{StatusCode::kConnectionDisconnected, std::strerror(errno), Detail::kTransport, errno};
  }
  FdMessage message;
  message.size = static_cast<std::size_t>(got);
  for (cmsghdr* cmsg = CMSG_FIRSTHDR(&header); cmsg != nullptr; cmsg = CMSG_NXTHDR(&header, cmsg)) {
    if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_CREDENTIALS && sender != nullptr) {
      ucred credentials;
      std::memcpy(&credentials, CMSG_DATA(cmsg), sizeof credentials);
      *sender = static_cast<std::uint32_t>(credentials.pid);
    }
    if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
      message.fds.emplace_back(fd);
    }
  }
  const bool truncated = (header.msg_flags & MSG_CTRUNC) != 0;
  // There was room for the agreed number, so fewer mean a full table.
  message.lost_fds = truncated && message.fds.size() < kMaxFdsPerMessage;
  if ((header.msg_flags & MSG_TRUNC) != 0 || (truncated && !message.lost_fds)) {
    if (of_wrong != nullptr) *of_wrong = std::move(message.fds);
    return Status{StatusCode::kRemoteError, "a message was longer, or carried more descriptors, than agreed",
                  Detail::kProtocol};
  }
  // A hang-up, because the protocols of ndbroker have no empty datagrams.
  if (got == 0) return Status{StatusCode::kConnectionDisconnected, "the other end hung up"};
  return message;
}

}  // namespace

Status SendWithFds(int socket, std::span<const std::byte> message, std::span<const int> fds) {
  return SendOne(socket, message, fds, nullptr);
}

Status SendInMyName(int socket, std::span<const std::byte> message, std::span<const int> fds) {
  const ucred me{getpid(), geteuid(), getegid()};
  return SendOne(socket, message, fds, &me);
}

std::size_t SendInOrder(int socket, std::span<const std::span<const std::byte>> messages, Status* why) {
  std::size_t done = 0;
  while (done < messages.size()) {
    const std::size_t count = std::min(messages.size() - done, kMostAtOnce);
    std::array<iovec, kMostAtOnce> parts;
    std::array<mmsghdr, kMostAtOnce> headers{};
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const std::byte> message = messages[done + i];
      parts[i] = {const_cast<std::byte*>(message.data()), message.size()};
      headers[i].msg_hdr.msg_iov = &parts[i];
      headers[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent =
        sendmmsg(socket, headers.data(), static_cast<unsigned>(count), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      *why = CannotSend(errno);
      break;
    }
    // After a part of them the kernel keeps the error to itself; the next call has it.
    done += static_cast<std::size_t>(sent);
  }
  return done;
}

std::size_t ReceiveInOrder(int socket, std::span<const std::span<std::byte>> buffers,
                           std::span<os::ReceivedMessage> messages) {
  std::array<iovec, kMostReceived> parts;
  std::array<mmsghdr, kMostReceived> headers{};  // Without room for control data.
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    parts[i] = {buffers[i].data(), buffers[i].size()};
    headers[i].msg_hdr.msg_iov = &parts[i];
    headers[i].msg_hdr.msg_iovlen = 1;
  }
  int got;
  do {
    got = recvmmsg(socket, headers.data(), static_cast<unsigned>(buffers.size()), MSG_DONTWAIT, nullptr);
  } while (got < 0 && errno == EINTR);
  for (int i = 0; i < got; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int flags = headers[at].msg_hdr.msg_flags;
    messages[at] = {static_cast<std::ptrdiff_t>(headers[at].msg_len), (flags & MSG_CTRUNC) != 0,
                    (flags & MSG_TRUNC) != 0};
  }
  return static_cast<std::size_t>(std::max(got, 0));
}

bool TooManyInFlight(const Status& status) {
  return status.native() == ETOOMANYREFS;
}

Result<FdMessage> ReceiveWithFds(int socket, std::span<std::byte> buffer, bool blocking,
                                 std::vector<UniqueFd>* of_wrong) {
  return ReceiveOne(socket, buffer, blocking, nullptr, of_wrong);
}

// The kernel gives a name to a socket that sends while it asks for senders, so it asks during this call only.
Result<FdMessage> ReceiveWithSender(int socket, std::span<std::byte> buffer, std::uint32_t* process) {
  *process = 0;
  const auto ask = [socket](int on) { setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on); };
  ask(1);
  auto got = ReceiveOne(socket, buffer, false, process);
  ask(0);
  return got;
}

Result<FdMessage> ReceiveLongWithSender(int socket, std::span<std::byte> buffer, std::size_t size,
                                        std::uint32_t* process) {
  *process = 0;
  const ssize_t next = recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  if (next > 0 && static_cast<std::size_t>(next) > size) return ReceiveWithSender(socket, buffer, process);
  if (next < 0 && errno == EAGAIN) return Status{StatusCode::kDeviceBusy, "no message waits"};
  return ReceiveOne(socket, buffer, false, nullptr);
}

Status MakeSeqpacketPair(UniqueFd* a, UniqueFd* b) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
    return {StatusCode::kInsufficientResources,
            std::string("cannot create a socket pair: ") + std::strerror(errno), Detail::kTransport, errno};
  }
  a->reset(fds[0]);
  b->reset(fds[1]);
  return Status::Ok();
}

}  // namespace nd
