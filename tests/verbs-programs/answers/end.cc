// SPDX-License-Identifier: Apache-2.0
#include "tests/verbs-programs/answers/end.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace nd::verbs_programs {
namespace {

bool Readable(int fd, int seconds) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, seconds * 1000) == 1;
}

// "RDMA_CM_EVENT_ESTABLISHED" without its first three words.
std::string Short(const char* text) {
  constexpr char kPrefix[] = "RDMA_CM_EVENT_";
  return std::strncmp(text, kPrefix, sizeof kPrefix - 1) == 0 ? text + sizeof kPrefix - 1 : text;
}

// The text that the peer gave. Some devices fill the rest of the field with zeros.
std::string TextOf(const rdma_cm_event& event) {
  const auto& parameters = event.param.conn;
  if (parameters.private_data_len == 0 || parameters.private_data == nullptr) return "";
  const char* text = static_cast<const char*>(parameters.private_data);
  const std::string found(text, strnlen(text, parameters.private_data_len));
  return found.empty() ? "" : " \"" + found + "\"";
}

const char* StateName(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_RESET:
      return "RESET";
    case IBV_QPS_INIT:
      return "INIT";
    case IBV_QPS_RTR:
      return "RTR";
    case IBV_QPS_RTS:
      return "RTS";
    case IBV_QPS_SQD:
      return "SQD";
    case IBV_QPS_SQE:
      return "SQE";
    case IBV_QPS_ERR:
      return "ERR";
    default:
      return "unknown";
  }
}

std::string Describe(const ibv_wc& completion) {
  std::string text = std::to_string(completion.wr_id) + " " + ibv_wc_status_str(completion.status);
  if (completion.status != IBV_WC_SUCCESS) return text;
  text += ", opcode " + std::to_string(completion.opcode);
  if (completion.opcode >= IBV_WC_RECV) text += ", " + std::to_string(completion.byte_len) + " bytes";
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0)
    text += ", immediate " + std::to_string(ntohl(completion.imm_data));
  if ((completion.wc_flags & IBV_WC_WITH_INV) != 0) text += ", invalidated";
  return text;
}

}  // namespace

std::string NameOf(int error) {
  const char* name = error == 0 ? "0" : strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

End::End(const Place& place, std::string name, int peer)
    : place_(place), name_(std::move(name)), peer_(peer), channel_(rdma_create_event_channel()) {
  Made("rdma_create_event_channel", channel_);
  if (channel_ == nullptr) std::exit(2);
}

void End::Say(const std::string& label, const std::string& value) const {
  std::printf("%s %s: %s\n", name_.c_str(), label.c_str(), value.c_str());
  std::fflush(stdout);
}

void End::Cm(const char* label, int result) const {
  Say(label, result == 0 ? "0" : NameOf(errno));
}

// libsiw answers with negative numbers.
void End::Verb(const char* label, int error) const {
  Say(label, NameOf(error < -1 ? -error : error));
}

// An object is printed only when it could not be made.
void End::Made(const char* label, const void* object) const {
  if (object == nullptr) Say(label, NameOf(errno));
}

void End::Tell(std::uint32_t number) const {
  if (write(peer_, &number, sizeof number) != sizeof number) std::exit(2);
}

std::uint32_t End::Await() const {
  std::uint32_t number = 0;
  if (read(peer_, &number, sizeof number) != sizeof number) std::exit(2);
  return number;
}

void End::AwaitItsEnd() const {
  std::uint32_t number;
  while (read(peer_, &number, sizeof number) > 0) continue;
}

rdma_cm_id* End::NewIdentifier() const {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) {
    Cm("rdma_create_id", -1);
    std::exit(2);
  }
  return id;
}

sockaddr_storage End::Address(const std::string& text, std::uint16_t port) const {
  sockaddr_storage storage{};
  auto* address = reinterpret_cast<sockaddr_in*>(&storage);
  address->sin_family = AF_INET;
  address->sin_port = htons(port);
  if (inet_pton(AF_INET, text.c_str(), &address->sin_addr) != 1) std::exit(2);
  return storage;
}

rdma_cm_id* End::Listen(int backlog) const {
  rdma_cm_id* id = NewIdentifier();
  sockaddr_storage address = Address(place_.address, 0);
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0 || rdma_listen(id, backlog) != 0) {
    Cm("listen", -1);
    std::exit(2);
  }
  Tell(ntohs(rdma_get_src_port(id)));
  return id;
}

rdma_cm_id* End::Resolve(std::uint16_t port) const {
  rdma_cm_id* id = NewIdentifier();
  sockaddr_storage address = Address(place_.address, port);
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 5000) != 0)
    Cm("rdma_resolve_addr", -1);
  Silently(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(id, 5000) != 0) Cm("rdma_resolve_route", -1);
  Silently(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

rdma_cm_id* End::Event(const char* label, int expected, int seconds) const {
  rdma_cm_event* event = nullptr;
  if (!Readable(channel_->fd, seconds)) {
    Say(label, "none");
    return nullptr;
  }
  if (rdma_get_cm_event(channel_, &event) != 0) {
    Cm(label, -1);
    return nullptr;
  }
  rdma_cm_id* id = event->id;
  if (static_cast<int>(event->event) != expected) {
    Say(label, Short(rdma_event_str(event->event)) + " " + std::to_string(event->status) + TextOf(*event));
  }
  rdma_ack_cm_event(event);
  return id;
}

Data::Data(const End& of, rdma_cm_id* identifier, const Wants& wants) : end(of), id(identifier) {
  sent = ibv_create_cq(id->verbs, wants.completions, nullptr, nullptr, 0);
  received = ibv_create_cq(id->verbs, wants.completions, nullptr, nullptr, 0);
  id->pd = ibv_alloc_pd(id->verbs);
  end.Made("ibv_create_cq", sent);
  end.Made("ibv_alloc_pd", id->pd);
  region = ibv_reg_mr(id->pd, memory.data(), memory.size(), wants.rights);
  end.Made("ibv_reg_mr", region);
  if (sent == nullptr || received == nullptr || id->pd == nullptr || region == nullptr) std::exit(2);
  local_key = region->lkey;
  ibv_qp_init_attr made{};
  made.send_cq = sent;
  made.recv_cq = received;
  made.cap = {wants.depth, wants.depth, 2, 1, 0};
  made.qp_type = IBV_QPT_RC;
  if (wants.shared_receives) {
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = wants.depth;
    attributes.attr.max_sge = 1;
    made.srq = shared = ibv_create_srq(id->pd, &attributes);
    end.Made("ibv_create_srq", shared);
  }
  if (rdma_create_qp(id, id->pd, &made) != 0) {
    end.Cm("rdma_create_qp", -1);
    std::exit(2);
  }
}

int Data::Receive(std::uint64_t number, std::uint32_t length) {
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()) + 2048, length, local_key};
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = 1;
  return shared != nullptr ? ibv_post_srq_recv(shared, &request, &bad)
                           : ibv_post_recv(id->qp, &request, &bad);
}

int Data::Post(std::uint64_t number, ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t remote,
               std::uint32_t key) {
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()), length, local_key};
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = length == 0 ? 0 : 1;
  request.opcode = opcode;
  request.send_flags = send_flags;
  request.imm_data = htonl(4711);
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    request.wr.atomic = {remote, 1, 2, key};
  } else {
    request.wr.rdma = {remote, key};
  }
  return ibv_post_send(id->qp, &request, &bad);
}

void Data::Completions(const char* label, ibv_cq* queue, int count, int seconds) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int found = 0; found < count;) {
    ibv_wc completion;
    const int polled = ibv_poll_cq(queue, 1, &completion);
    if (polled < 0) return end.Say(label, "the poll fails");
    if (polled == 1) {
      ++found;
      end.Say(label, Describe(completion));
      continue;
    }
    if (std::chrono::steady_clock::now() > until) return end.Say(label, "none");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Data::State(const char* label) const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  const int error = ibv_query_qp(id->qp, &attributes, IBV_QP_STATE, &made);
  end.Say(label, error != 0 ? NameOf(error) : StateName(attributes.qp_state));
}

void Data::DeviceEvent(const char* label, int seconds) const {
  ibv_async_event event;
  if (!Readable(id->verbs->async_fd, seconds)) return end.Say(label, "none");
  if (ibv_get_async_event(id->verbs, &event) != 0) return end.Verb(label, errno);
  end.Say(label, ibv_event_type_str(event.event_type));
  ibv_ack_async_event(&event);
}

rdma_conn_param Parameters(const char* text) {
  rdma_conn_param parameters{};
  parameters.responder_resources = parameters.initiator_depth = 4;
  parameters.retry_count = 3;
  parameters.rnr_retry_count = 7;
  if (text != nullptr) {
    parameters.private_data = text;
    parameters.private_data_len = static_cast<std::uint8_t>(std::strlen(text));
  }
  return parameters;
}

Data& Accepted(const End& end, const Wants& wants) {
  end.Listen();
  rdma_cm_id* id = end.Silently(RDMA_CM_EVENT_CONNECT_REQUEST);
  if (id == nullptr) std::exit(2);
  auto* data = new Data(end, id, wants);
  data->Receive(1), data->Receive(2);
  rdma_conn_param parameters = Parameters();
  if (rdma_accept(id, &parameters) != 0) end.Cm("rdma_accept", -1);
  end.Silently(RDMA_CM_EVENT_ESTABLISHED);
  return *data;
}

Data& Connected(const End& end, const Wants& wants, rdma_conn_param parameters) {
  rdma_cm_id* id = end.Resolve(static_cast<std::uint16_t>(end.Await()));
  auto* data = new Data(end, id, wants);
  if (rdma_connect(id, &parameters) != 0) end.Cm("rdma_connect", -1);
  end.Silently(RDMA_CM_EVENT_ESTABLISHED);
  return *data;
}

}  // namespace nd::verbs_programs
