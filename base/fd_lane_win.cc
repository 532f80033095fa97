// SPDX-License-Identifier: Apache-2.0
// Descriptors by DuplicateHandle, sockets by WSADuplicateSocket. Each message begins with a count of
// descriptors and their records.
#include "base/fd_lane.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/lane_sender.h"
#include "base/os/error_text.h"
#include "base/os/pipe_win.h"
#include "base/os/readiness.h"

namespace nd {
namespace {

using os::Object;
using os::PipeObject;

struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t count = 0;

  static constexpr std::uint32_t kMagic = 0x464e4431;
};

struct Record {
  Object::Kind kind;
  os::SocketObject::Use use;
  bool by_winsock;       // `socket` has the socket, and not `handle`.
  std::uint64_t handle;  // In the process of the client.
  WSAPROTOCOL_INFOW socket;
};

struct Raw {
  Object::Kind kind;
  HANDLE handle;
  os::SocketObject::Use use = os::SocketObject::Use::kNetwork;
};

bool Look(int fd, Raw* raw) {
  const std::shared_ptr<Object> object = os::FindObject(fd);
  if (!object) return false;
  raw->kind = object->kind();
  switch (raw->kind) {
    case Object::Kind::kSocket: {
      const auto& socket = static_cast<const os::SocketObject&>(*object);
      raw->handle = reinterpret_cast<HANDLE>(socket.get());
      raw->use = socket.use();
      return true;
    }
    case Object::Kind::kEvent:
      raw->handle = static_cast<const os::EventObject&>(*object).get();
      return true;
    case Object::Kind::kSection:
      raw->handle = static_cast<const os::SectionObject&>(*object).get();
      return true;
    case Object::Kind::kPipe:
      raw->handle = static_cast<const PipeObject&>(*object).get();
      return true;
    default:
      return false;  // The handle means something in this process only.
  }
}

// From now on the receiver owns the handles that the record names.
bool Put(const PipeObject& lane, const Raw& raw, Record* record) {
  std::memset(record, 0, sizeof *record);  // All of it is sent.
  record->kind = raw.kind;
  record->use = raw.use;
  const bool here = lane.carrier() == PipeObject::Carrier::kHere;
  if (raw.kind == Object::Kind::kSocket && here) {
    record->by_winsock = true;
    return ::WSADuplicateSocketW(reinterpret_cast<SOCKET>(raw.handle), ::GetProcessId(lane.peer()),
                                 &record->socket) == 0;
  }
  HANDLE copy = nullptr;
  if (::DuplicateHandle(::GetCurrentProcess(), raw.handle, here ? lane.peer() : ::GetCurrentProcess(), &copy,
                        0, FALSE, DUPLICATE_SAME_ACCESS) == 0)
    return false;
  record->handle = reinterpret_cast<std::uint64_t>(copy);
  return true;
}

void TakeBack(const PipeObject& lane, const Record& record) {
  if (record.by_winsock) return;  // Ends with the process of the receiver.
  const bool here = lane.carrier() == PipeObject::Carrier::kHere;
  ::DuplicateHandle(here ? lane.peer() : ::GetCurrentProcess(), reinterpret_cast<HANDLE>(record.handle),
                    nullptr, nullptr, 0, FALSE, DUPLICATE_CLOSE_SOURCE);
}

std::shared_ptr<Object> Wrap(const Record& record, os::Handle handle) {
  switch (record.kind) {
    case Object::Kind::kEvent:
      return std::make_shared<os::EventObject>(std::move(handle));
    case Object::Kind::kSection:
      return std::make_shared<os::SectionObject>(std::move(handle));
    case Object::Kind::kPipe:
      return PipeObject::Make(std::move(handle), PipeObject::Carrier::kNobody, {});
    default:
      return nullptr;
  }
}

std::shared_ptr<Object> WrapSocket(SOCKET socket, os::SocketObject::Use use) {
  int type = 0, size = sizeof type;
  if (socket == INVALID_SOCKET ||
      ::getsockopt(socket, SOL_SOCKET, SO_TYPE, reinterpret_cast<char*>(&type), &size) != 0)
    return nullptr;
  return std::make_shared<os::SocketObject>(socket, use);
}

// For a record from the trusted process, whose records are correct.
UniqueFd TakeGiven(Record record) {
  std::shared_ptr<Object> object;
  if (record.by_winsock) {
    os::StartWinsock();
    object = WrapSocket(::WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO,
                                     &record.socket, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT),
                        record.use);
  } else {
    object = Wrap(record, os::Handle(reinterpret_cast<HANDLE>(record.handle)));
  }
  return object ? UniqueFd(os::PutObject(std::move(object))) : UniqueFd();
}

// From a client, which is not trusted: its record may name any handle of its process, and only sections are
// accepted. A pipe could have been opened in a way that makes calls on it wait.
UniqueFd Fetch(const PipeObject& lane, const Record& record) {
  // Negative numbers are pseudo-handles, which would be this process or its threads.
  if (record.handle == 0 || record.handle > INT32_MAX) return {};
  HANDLE handle = nullptr;
  if (::DuplicateHandle(lane.peer(), reinterpret_cast<HANDLE>(record.handle), ::GetCurrentProcess(), &handle,
                        0, FALSE, DUPLICATE_SAME_ACCESS | DUPLICATE_CLOSE_SOURCE) == 0)
    return {};
  os::Handle owned(handle);
  if (record.kind != Object::Kind::kSection) return {};
  return UniqueFd(os::PutObject(std::make_shared<os::SectionObject>(std::move(owned))));
}

Status Disconnected() {
  return {StatusCode::kConnectionDisconnected, "the other end hung up", Detail::kTransport, errno};
}

}  // namespace

Status SendWithFds(int socket, std::span<const std::byte> message, std::span<const int> fds) {
  if (fds.size() > kMaxFdsPerMessage)
    return {StatusCode::kInvalidParameter, "too many descriptors in a message"};
  const auto lane = os::FindAs<PipeObject>(socket);
  if (!lane) return Disconnected();
  if (!fds.empty() && lane->carrier() == PipeObject::Carrier::kNobody) {
    return {StatusCode::kNotSupported, "neither end may put handles into the process of the other"};
  }
  for (const int fd : fds) {
    Raw raw{};
    if (lane->carrier() == PipeObject::Carrier::kThere &&
        (!Look(fd, &raw) || raw.kind != Object::Kind::kSection)) {
      return {StatusCode::kNotSupported, "only shared memory can be given to a broker"};
    }
  }
  // Checked before handles are put into another process: afterwards the message usually still fits.
  if ((lane->Ready() & os::kWritable) == 0) {
    return {StatusCode::kDeviceBusy, "the receiver does not take its messages", Detail::kTransport, EAGAIN};
  }
  struct {
    Header header;
    Record records[kMaxFdsPerMessage];
  } head;
  const auto take_back = [&] {
    for (std::uint32_t i = 0; i < head.header.count; ++i) TakeBack(*lane, head.records[i]);
  };
  for (const int fd : fds) {
    Raw raw{};
    if (!Look(fd, &raw) || !Put(*lane, raw, &head.records[head.header.count])) {
      take_back();
      return {StatusCode::kInvalidParameter, "a descriptor that cannot be sent"};
    }
    ++head.header.count;
  }
  const std::size_t size = offsetof(decltype(head), records) + head.header.count * sizeof(Record);
  if (lane->Send(std::as_bytes(std::span(reinterpret_cast<const char*>(&head), size)), message))
    return Status::Ok();
  const int error = errno;
  take_back();
  if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) {
    return {StatusCode::kDeviceBusy, "the receiver does not take its messages", Detail::kTransport, error};
  }
  errno = error;
  return Disconnected();
}

std::size_t SendInOrder(int socket, std::span<const std::span<const std::byte>> messages, Status* why) {
  std::size_t done = 0;
  for (; done < messages.size(); ++done) {
    *why = SendWithFds(socket, messages[done], {});
    if (!why->ok()) break;
  }
  return done;
}

std::size_t ReceiveInOrder(int socket, std::span<const std::span<std::byte>> buffers,
                           std::span<os::ReceivedMessage> messages) {
  std::size_t done = 0;
  for (; done < buffers.size(); ++done) {
    messages[done] = os::ReceiveMessage(socket, buffers[done]);
    if (messages[done].size < 0) break;
  }
  return done;
}

// The system does not limit handles in flight.
bool TooManyInFlight(const Status&) {
  return false;
}

Status SendInMyName(int socket, std::span<const std::byte> message, std::span<const int> fds) {
  return SendWithFds(socket, message, fds);
}

Result<FdMessage> ReceiveWithSender(int socket, std::span<std::byte> buffer, std::uint32_t* process) {
  *process = 0;
  return ReceiveWithFds(socket, buffer, false);
}

Result<FdMessage> ReceiveLongWithSender(int socket, std::span<std::byte> buffer, std::size_t /*size*/,
                                        std::uint32_t* process) {
  return ReceiveWithSender(socket, buffer, process);
}

Result<FdMessage> ReceiveWithFds(int socket, std::span<std::byte> buffer, bool blocking,
                                 std::vector<UniqueFd>* /*of_wrong*/) {
  const auto lane = os::FindAs<PipeObject>(socket);
  if (!lane) return Disconnected();
  if (blocking) lane->WaitUntilReadable();
  std::vector<std::byte> bytes;
  bool too_long = false;
  if (!lane->Receive(sizeof(Header) + kMaxFdsPerMessage * sizeof(Record) + buffer.size(), &bytes,
                     &too_long)) {
    if (errno == EAGAIN) return Status{StatusCode::kDeviceBusy, "no message waits"};
    return Disconnected();
  }
  const Status broken{StatusCode::kRemoteError,
                      "a message was longer, or carried more descriptors, than agreed", Detail::kProtocol};
  Header header;
  if (bytes.size() < sizeof header) return broken;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t head = sizeof header + header.count * sizeof(Record);
  if (header.magic != Header::kMagic || header.count > kMaxFdsPerMessage || bytes.size() < head)
    return broken;
  FdMessage message;
  message.size = bytes.size() - head;
  bool complete = !too_long && message.size <= buffer.size();
  for (std::uint32_t i = 0; i < header.count; ++i) {
    Record record;
    std::memcpy(&record, bytes.data() + sizeof header + i * sizeof record, sizeof record);
    UniqueFd fd;
    if (lane->carrier() == PipeObject::Carrier::kHere) fd = Fetch(*lane, record);
    if (lane->carrier() == PipeObject::Carrier::kThere) fd = TakeGiven(record);
    complete = complete && fd;
    message.fds.push_back(std::move(fd));
  }
  if (!complete) return broken;
  // A hang-up, because the protocols of ndbroker have no empty datagrams.
  if (message.size == 0) return Status{StatusCode::kConnectionDisconnected, "the other end hung up"};
  std::memcpy(buffer.data(), bytes.data() + head, message.size);
  return message;
}

Status MakeSeqpacketPair(UniqueFd* a, UniqueFd* b) {
  std::shared_ptr<PipeObject> one, other;
  if (os::MakePipePair(&one, &other)) {
    a->reset(os::PutObject(std::move(one)));
    b->reset(os::PutObject(std::move(other)));
    if (*a && *b) return Status::Ok();
  }
  return {StatusCode::kInsufficientResources,
          std::string("cannot create a pair of pipes: ") + os::ErrorText(errno), Detail::kTransport, errno};
}

}  // namespace nd
