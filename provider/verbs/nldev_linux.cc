// SPDX-License-Identifier: Apache-2.0
// rdma_cm lets a process use the idle queue pair of another process by its number. Netlink tells the owner.
#include "provider/verbs/nldev.h"

#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>

namespace nd::provider::verbs {
namespace {

constexpr std::size_t kReplyRoom = 65536;
constexpr int kReplyTimeoutMs = 1000;

void Put(Message* message, const void* data, std::size_t size) {
  const std::size_t at = message->size();
  message->resize(at + NLMSG_ALIGN(size));
  std::memcpy(message->data() + at, data, size);
}

void PutU32(Message* message, std::uint16_t type, std::uint32_t value) {
  const nlattr attribute{NLA_HDRLEN + sizeof value, type};
  Put(message, &attribute, sizeof attribute);
  Put(message, &value, sizeof value);
}

struct Attribute {
  std::uint16_t type;
  std::uint32_t value;
};

Message Request(std::uint16_t command, std::uint16_t flags, std::uint32_t sequence,
                std::initializer_list<Attribute> attributes) {
  Message message;
  nlmsghdr header{};
  header.nlmsg_type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
  header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  header.nlmsg_seq = sequence;
  Put(&message, &header, sizeof header);
  for (const Attribute& attribute : attributes) PutU32(&message, attribute.type, attribute.value);
  header.nlmsg_len = static_cast<std::uint32_t>(message.size());
  std::memcpy(message.data(), &header, sizeof header);
  return message;
}

Status Malformed() {
  return {StatusCode::kInternalError, "The kernel's RDMA netlink answer makes no sense."};
}

// The attributes of the answer to `sequence`.
Result<std::span<const std::uint8_t>> Payload(std::span<const std::uint8_t> reply, std::uint32_t sequence) {
  nlmsghdr header{};
  if (reply.size() < sizeof header) return Malformed();
  std::memcpy(&header, reply.data(), sizeof header);
  if (header.nlmsg_len < sizeof header || header.nlmsg_len > reply.size() || header.nlmsg_seq != sequence) {
    return Malformed();
  }
  const auto body = reply.subspan(sizeof header, header.nlmsg_len - sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    std::int32_t error = 0;
    if (body.size() < sizeof error) return Malformed();
    std::memcpy(&error, body.data(), sizeof error);
    if (error >= 0) return Malformed();
    return Status{StatusCode::kDeviceNotReady,
                  std::string("The kernel's RDMA netlink says: ") + std::strerror(-error) + ".",
                  Detail::kNone, -error};
  }
  return body;
}

// Calls `visit(type, value)` for each attribute until `visit` returns false. Returns false when the
// attributes are malformed.
template <typename Visit>
bool ForEach(std::span<const std::uint8_t> attributes, Visit visit) {
  while (attributes.size() >= NLA_HDRLEN) {
    nlattr attribute{};
    std::memcpy(&attribute, attributes.data(), sizeof attribute);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > attributes.size()) return false;
    const auto type = static_cast<std::uint16_t>(attribute.nla_type & NLA_TYPE_MASK);
    if (!visit(type, attributes.subspan(NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN))) return true;
    const std::size_t step = NLA_ALIGN(attribute.nla_len);
    if (step >= attributes.size()) break;
    attributes = attributes.subspan(step);
  }
  return true;
}

std::optional<std::uint32_t> FindU32(std::span<const std::uint8_t> attributes, std::uint16_t wanted,
                                     bool* malformed) {
  std::optional<std::uint32_t> found;
  const bool sound = ForEach(attributes, [&](std::uint16_t type, std::span<const std::uint8_t> value) {
    if (type != wanted) return true;
    std::uint32_t number = 0;
    if (value.size() != sizeof number) {
      *malformed = true;
      return false;
    }
    std::memcpy(&number, value.data(), sizeof number);
    found = number;
    return false;
  });
  if (!sound) *malformed = true;
  return *malformed ? std::nullopt : found;
}

}  // namespace

Message QpOwnerRequest(std::uint32_t sequence, std::uint32_t device_index, std::uint32_t port,
                       std::uint32_t qp_number) {
  return Request(RDMA_NLDEV_CMD_RES_QP_GET, 0, sequence,
                 {{RDMA_NLDEV_ATTR_DEV_INDEX, device_index},
                  {RDMA_NLDEV_ATTR_PORT_INDEX, port},
                  {RDMA_NLDEV_ATTR_RES_LQPN, qp_number}});
}

Message QpDumpRequest(std::uint32_t sequence, std::uint32_t device_index) {
  return Request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, sequence,
                 {{RDMA_NLDEV_ATTR_DEV_INDEX, device_index}});
}

Message PortRequest(std::uint32_t sequence, std::uint32_t device_index, std::uint32_t port) {
  return Request(RDMA_NLDEV_CMD_PORT_GET, 0, sequence,
                 {{RDMA_NLDEV_ATTR_DEV_INDEX, device_index}, {RDMA_NLDEV_ATTR_PORT_INDEX, port}});
}

Result<std::optional<std::uint32_t>> ParseQpOwner(std::span<const std::uint8_t> reply, std::uint32_t sequence,
                                                  std::uint32_t qp_number) {
  const auto attributes = Payload(reply, sequence);
  if (!attributes.ok()) return attributes.status();
  bool malformed = false;
  const auto number = FindU32(*attributes, RDMA_NLDEV_ATTR_RES_LQPN, &malformed);
  if (malformed || !number || *number != qp_number) return Malformed();
  const auto pid = FindU32(*attributes, RDMA_NLDEV_ATTR_RES_PID, &malformed);
  if (malformed) return Malformed();
  return pid;
}

Result<QpDumpPart> ParseQpDump(std::span<const std::uint8_t> reply, std::uint32_t sequence,
                               std::uint32_t qp_number) {
  QpDumpPart part;
  while (!reply.empty()) {
    nlmsghdr header{};
    if (reply.size() < sizeof header) return Malformed();
    std::memcpy(&header, reply.data(), sizeof header);
    if (header.nlmsg_type == NLMSG_DONE && header.nlmsg_seq == sequence) {
      part.done = true;
      return part;
    }
    const auto attributes = Payload(reply, sequence);
    if (!attributes.ok()) return attributes.status();
    bool malformed = false;
    // Message: a table of entries, each with number and owner.
    const bool sound = ForEach(*attributes, [&](std::uint16_t type, std::span<const std::uint8_t> table) {
      if (type != RDMA_NLDEV_ATTR_RES_QP) return true;
      malformed |= !ForEach(table, [&](std::uint16_t, std::span<const std::uint8_t> entry) {
        if (FindU32(entry, RDMA_NLDEV_ATTR_RES_LQPN, &malformed) == qp_number) {
          part.found = true;
          part.owner = FindU32(entry, RDMA_NLDEV_ATTR_RES_PID, &malformed);
        }
        return !malformed;
      });
      return !malformed;
    });
    if (!sound || malformed) return Malformed();
    reply = reply.subspan(std::min<std::size_t>(reply.size(), NLMSG_ALIGN(header.nlmsg_len)));
  }
  return part;
}

Result<std::optional<std::uint32_t>> ParsePortNetdev(std::span<const std::uint8_t> reply,
                                                     std::uint32_t sequence) {
  const auto attributes = Payload(reply, sequence);
  if (!attributes.ok()) return attributes.status();
  bool malformed = false;
  const auto index = FindU32(*attributes, RDMA_NLDEV_ATTR_NDEV_INDEX, &malformed);
  if (malformed) return Malformed();
  return index;
}

std::optional<std::uint32_t> ParseProcessOf(std::string_view status) {
  constexpr std::string_view kKey = "\nTgid:\t";
  const std::size_t at = status.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  std::uint32_t process = 0;
  const char* const begin = status.data() + at + kKey.size();
  const auto [end, error] = std::from_chars(begin, status.data() + status.size(), process);
  if (error != std::errc() || end == begin) return std::nullopt;
  return process;
}

Result<Message> Nldev::Ask(const Message& request) {
  if (!socket_) {
    socket_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA));
    if (!socket_) {
      return Status{StatusCode::kDeviceNotReady,
                    std::string("No RDMA netlink socket: ") + std::strerror(errno) + ". Load ib_core.",
                    Detail::kNone, errno};
    }
  }
  if (::send(socket_.get(), request.data(), request.size(), 0) < 0) {
    const int error = errno;
    socket_.reset();
    return Status{StatusCode::kDeviceNotReady, std::string("RDMA netlink: ") + std::strerror(error) + ".",
                  Detail::kNone, error};
  }
  return Receive();
}

Result<Message> Nldev::Receive() {
  Message reply(kReplyRoom);
  for (;;) {
    pollfd waiting{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kReplyTimeoutMs);
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t n = ready > 0 ? ::recv(socket_.get(), reply.data(), reply.size(), 0) : -1;
    if (n < 0) {
      socket_.reset();  // A late answer must not be taken for the answer to the next request.
      return Status{StatusCode::kDeviceNotReady, "The kernel's RDMA netlink does not answer."};
    }
    reply.resize(static_cast<std::size_t>(n));
    return reply;
  }
}

Result<std::optional<std::uint32_t>> Nldev::QpOwner(std::uint32_t device_index, std::uint32_t port,
                                                    std::uint32_t qp_number) {
  std::uint32_t sequence = ++sequence_;
  auto reply = Ask(QpOwnerRequest(sequence, device_index, port, qp_number));
  if (!reply.ok()) return reply.status();
  auto owner = ParseQpOwner(*reply, sequence, qp_number);
  if (owner.ok() || owner.status().native() != EAGAIN) return owner;
  // The queue pair exists, but its driver did not record the port. Search all queue pairs of the device.
  sequence = ++sequence_;
  reply = Ask(QpDumpRequest(sequence, device_index));
  QpDumpPart whole;
  while (reply.ok()) {
    const auto part = ParseQpDump(*reply, sequence, qp_number);
    if (!part.ok()) {
      socket_.reset();
      return part.status();
    }
    if (part->found) whole = *part;
    if (part->done) {
      if (whole.found) return whole.owner;
      return Status{StatusCode::kDeviceNotReady, "There is no such queue pair.", Detail::kNone, ENOENT};
    }
    reply = Receive();
  }
  return reply.status();
}

Status Nldev::CheckQpOwner(std::uint32_t device_index, std::uint32_t port, std::uint32_t qp_number,
                           std::uint32_t pid) {
  const auto owner = QpOwner(device_index, port, qp_number);
  const std::string which = "queue pair " + std::to_string(qp_number);
  if (!owner.ok()) {
    if (owner.status().native() != ENOENT) return owner.status();
    return {StatusCode::kAccessDenied, "There is no " + which + " on this device.", Detail::kNone, ENOENT};
  }
  if (*owner == pid) return {};
  if (*owner) {
    std::ifstream file("/proc/" + std::to_string(**owner) + "/status");
    std::ostringstream text;
    text << file.rdbuf();
    if (ParseProcessOf(text.str()) == pid) return {};
  }
  return {StatusCode::kAccessDenied,
          "The " + which + " does not belong to process " + std::to_string(pid) + "."};
}

std::optional<std::uint32_t> Nldev::PortNetdev(std::uint32_t device_index, std::uint32_t port) {
  const std::uint32_t sequence = ++sequence_;
  const auto reply = Ask(PortRequest(sequence, device_index, port));
  if (!reply.ok()) return std::nullopt;
  const auto index = ParsePortNetdev(*reply, sequence);
  return index.ok() ? *index : std::nullopt;
}

}  // namespace nd::provider::verbs
