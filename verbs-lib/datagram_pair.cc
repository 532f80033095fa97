// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/datagram_pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/os/memory_fault.h"
#include "verbs-lib/address_handle.h"
#include "verbs-lib/datagram_thread.h"
#include "verbs-lib/device.h"
#include "verbs-lib/queue_pair.h"
#include "verbs-lib/regions.h"

namespace nd::verbs_lib {
namespace {

// Attempts to find a port that is free on every address.
constexpr int kPortAttempts = 32;
// Room for what arrives between two polls. Without the privilege the system's limit applies.
constexpr int kSocketBuffer = 8 << 20;
constexpr std::uint32_t kPrivilegedQkey = 0x80000000;

// Received messages have no service level. As mlx5 does, the field says what is in front of them (UCX looks):
// IPv6 or IPv4, and UDP.
std::uint8_t ServiceLevelOf(const Address& from) {
  constexpr std::uint8_t kUdp = 8, kIpv6 = 1, kIpv4 = 2;
  return kUdp | (from.family() == Address::Family::kIpv6 ? kIpv6 : kIpv4);
}

UniqueFd BoundSocket(const Address& address) {
  sockaddr_in6 name{};
  const auto length = static_cast<socklen_t>(address.ToSockaddr(&name));
  const int family = address.family() == Address::Family::kIpv6 ? AF_INET6 : AF_INET;
  UniqueFd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0) return {};
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer) != 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof kSocketBuffer);
  }
  return fd;
}

std::uint16_t PortOf(int fd) {
  sockaddr_in6 name{};
  socklen_t length = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return 0;
  return Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&name), length).port();
}

}  // namespace

DatagramPair::DatagramPair(QueuePair* owner)
    : owner_(owner),
      receives_(std::max(owner->init.cap.max_recv_wr, 1u), std::max(owner->init.cap.max_recv_sge, 1u)) {}

std::unique_ptr<DatagramPair> DatagramPair::Open(QueuePair* owner) {
  const auto& addresses = FromAbi(owner->base().context)->device->info.addresses;
  std::unique_ptr<DatagramPair> pair(new DatagramPair(owner));
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    if (pair->Bind(addresses)) return pair;
    if (errno != EADDRINUSE) break;
  }
  const int error = errno;
  std::fprintf(stderr, "ndbroker: no UDP socket for a UD queue pair on the addresses of %s: %s\n",
               owner->base().context->device->name, std::strerror(error));
  errno = error;
  return nullptr;
}

bool DatagramPair::Bind(const std::vector<Address>& addresses) {
  sockets_.clear();
  port_ = 0;
  int last = EADDRNOTAVAIL;
  for (const Address& address : addresses) {
    Socket& socket = sockets_.emplace_back();
    socket.address = address;
    socket.fd = BoundSocket(address.WithPort(port_));
    if (socket.fd) {
      if (port_ == 0) port_ = PortOf(socket.fd.get());
      continue;
    }
    last = errno;
    if (last == EADDRINUSE) return false;
    // An address of another network namespace, or one that needs a scope.
  }
  errno = last;
  return port_ != 0;
}

DatagramPair::~DatagramPair() {
  const std::uint64_t lost =
      dropped_.foreign + dropped_.wrong_qkey + dropped_.without_receive + dropped_.unsent;
  if (lost == 0) return;
  std::fprintf(stderr,
               "ndbroker: UD queue pair 0x%x dropped datagrams: %llu without a posted receive, %llu with a "
               "wrong Q_Key, %llu that no UD queue pair sent; %llu could not be sent\n",
               number(), static_cast<unsigned long long>(dropped_.without_receive),
               static_cast<unsigned long long>(dropped_.wrong_qkey),
               static_cast<unsigned long long>(dropped_.foreign),
               static_cast<unsigned long long>(dropped_.unsent));
}

int DatagramPair::PostReceive(const ibv_recv_wr& request) {
  std::lock_guard lock(mutex_);
  return receives_.Post(request);
}

void DatagramPair::Reset() {
  std::lock_guard lock(mutex_);
  while (!receives_.empty()) receives_.Pop();
}

void DatagramPair::Flush() {
  std::lock_guard lock(mutex_);
  for (; !receives_.empty(); receives_.Pop()) {
    ibv_wc flushed{};
    flushed.wr_id = receives_.id();
    flushed.status = IBV_WC_WR_FLUSH_ERR;
    flushed.opcode = IBV_WC_RECV;
    flushed.qp_num = number();
    owner_->receive_cq->Keep(flushed);
  }
}

int DatagramPair::PostSend(const ibv_send_wr& request) {
  const bool known = request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM;
  const auto most = static_cast<int>(std::max(owner_->init.cap.max_send_sge, 1u));
  if (!known || request.num_sge < 0 || request.num_sge > most || request.wr.ud.ah == nullptr) return EINVAL;
  std::uint64_t length = 0;
  for (int i = 0; i < request.num_sge; ++i) length += request.sg_list[i].length;
  const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  if (length > kMaxDatagramPayload || (is_inline && length > owner_->init.cap.max_inline_data)) return EINVAL;
  // The message leaves at once, so the length of the completion queue bounds what waits to be polled.
  if (owner_->send_cq->full()) return ENOMEM;

  ibv_wc sent{};
  sent.status = SendNow(request, static_cast<std::uint32_t>(length));
  if (sent.status != IBV_WC_SUCCESS) owner_->SetState(IBV_QPS_SQE);
  const bool signalled = owner_->init.sq_sig_all != 0 || (request.send_flags & IBV_SEND_SIGNALED) != 0;
  if (signalled || sent.status != IBV_WC_SUCCESS) {
    sent.wr_id = request.wr_id;
    sent.opcode = IBV_WC_SEND;
    sent.byte_len = static_cast<std::uint32_t>(length);
    sent.qp_num = number();
    owner_->send_cq->Keep(sent);
  }
  return 0;
}

ibv_wc_status DatagramPair::SendNow(const ibv_send_wr& request, std::uint32_t length) {
  const AddressHandle& to = *FromAbi(request.wr.ud.ah);
  DatagramHeader header;
  header.source_number = number();
  header.qkey = (request.wr.ud.remote_qkey & kPrivilegedQkey) != 0 ? owner_->attributes.qkey
                                                                   : request.wr.ud.remote_qkey;
  if (request.opcode == IBV_WR_SEND_WITH_IMM) header.immediate = ntohl(request.imm_data);
  header.solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
  auto encoded = EncodeDatagramHeader(header);

  std::array<iovec, 64> parts;
  std::size_t count = 0;
  parts[count++] = {encoded.data(), encoded.size()};
  const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  const RegionReader regions;
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& piece = request.sg_list[i];
    if (piece.length == 0) continue;
    void* memory = is_inline ? reinterpret_cast<void*>(static_cast<std::uintptr_t>(piece.addr))
                             : regions.Locate(piece, false);
    if (memory == nullptr || count == parts.size()) return IBV_WC_LOC_PROT_ERR;
    parts[count++] = {memory, piece.length};
  }

  const std::uint32_t port = request.wr.ud.remote_qpn - kDatagramNumbers;
  const Socket* from = to.source < sockets_.size() ? &sockets_[to.source] : nullptr;
  ssize_t sent = -1;
  if (port != 0 && port <= 0xffff && from != nullptr && from->fd) {
    sockaddr_in6 name{};
    msghdr message{};
    message.msg_name = &name;
    message.msg_namelen =
        static_cast<socklen_t>(to.destination.WithPort(static_cast<std::uint16_t>(port)).ToSockaddr(&name));
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    sent = sendmsg(from->fd.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EFAULT) return IBV_WC_LOC_PROT_ERR;
  }
  if (sent != static_cast<ssize_t>(length + encoded.size())) {
    // The datagram is lost, which UD allows.
    std::lock_guard lock(mutex_);
    ++dropped_.unsent;
  }
  return IBV_WC_SUCCESS;
}

void DatagramPair::Drive(int most) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) Read(most);  // Another thread reads.
}

void DatagramPair::Serve(int most) {
  std::lock_guard lock(mutex_);
  if (sockets_.empty()) return;  // Closed.
  Read(most);
  if (owner_->receive_cq->waits()) WatchSockets();
}

void DatagramPair::Close() {
  std::lock_guard lock(mutex_);
  sockets_.clear();
}

void DatagramPair::Read(int most) {
  for (const Socket& socket : sockets_) {
    if (!socket.fd) continue;
    for (int i = 0; i < most; ++i) {
      sockaddr_in6 name{};
      socklen_t length = sizeof name;
      const ssize_t got = recvfrom(socket.fd.get(), arriving_.data(), arriving_.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&name), &length);
      if (got < 0) break;
      Deliver(socket, std::span(arriving_.data(), static_cast<std::size_t>(got)),
              Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&name), length));
    }
  }
}

void DatagramPair::Deliver(const Socket& socket, std::span<const std::byte> datagram, const Address& from) {
  const auto header = ParseDatagramHeader(datagram, from.port());
  if (!header) {
    ++dropped_.foreign;
    return;
  }
  const ibv_qp_state state = owner_->state();
  if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_ERR) {
    ++dropped_.without_receive;
    return;
  }
  if (header->qkey != owner_->attributes.qkey) {
    ++dropped_.wrong_qkey;
    return;
  }
  const auto payload = datagram.subspan(kDatagramHeaderSize);
  const ibv_grh route = RouteHeaderOf(from, socket.address, payload.size());
  ibv_wc completion{};
  const bool received = [&] {
    const auto fill = [&](ReceiveRing& ring) {
      if (ring.empty()) return false;
      completion.wr_id = ring.id();
      completion.status = Scatter(ring.pieces(), route, payload);
      ring.Pop();
      return true;
    };
    if (owner_->init.srq == nullptr) return fill(receives_);
    return FromAbi(owner_->init.srq)->TakeForDatagram(fill);
  }();
  if (!received) {
    ++dropped_.without_receive;
    return;
  }
  completion.opcode = IBV_WC_RECV;
  completion.byte_len = static_cast<std::uint32_t>(sizeof route + payload.size());
  completion.qp_num = number();
  completion.src_qp = header->source_number;
  completion.wc_flags = IBV_WC_GRH;
  completion.sl = ServiceLevelOf(from);
  if (header->immediate) {
    completion.wc_flags |= IBV_WC_WITH_IMM;
    completion.imm_data = htonl(*header->immediate);
  }
  owner_->receive_cq->Keep(completion, header->solicited);
}

ibv_wc_status DatagramPair::Scatter(std::span<const ibv_sge> pieces, const ibv_grh& route,
                                    std::span<const std::byte> payload) const {
  const std::array<std::span<const std::byte>, 2> sources = {std::as_bytes(std::span(&route, 1)), payload};
  std::size_t source = 0, done = 0;
  const RegionReader regions;
  for (const ibv_sge& piece : pieces) {
    if (piece.length == 0) continue;
    std::byte* to = regions.Locate(piece, true);
    if (to == nullptr) return IBV_WC_LOC_PROT_ERR;
    std::size_t room = piece.length;
    while (room != 0 && source < sources.size()) {
      const std::size_t size = std::min(room, sources[source].size() - done);
      std::memcpy(to, sources[source].data() + done, size);
      to += size;
      room -= size;
      done += size;
      if (done == sources[source].size()) {
        ++source;
        done = 0;
      }
    }
  }
  if (os::TakeMemoryFault()) return IBV_WC_LOC_PROT_ERR;
  const bool all = source == sources.size() || (source == 1 && payload.empty());
  return all ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

void DatagramPair::Watch() {
  std::lock_guard lock(mutex_);
  WatchSockets();
}

void DatagramPair::WatchSockets() {
  for (Socket& socket : sockets_) {
    if (socket.fd) socket.watched = WatchDatagrams(socket.fd.get(), number(), socket.watched);
  }
}

}  // namespace nd::verbs_lib
