// SPDX-License-Identifier: Apache-2.0
// Scenarios with one end: bad arguments, objects in use, identifiers in the wrong state, and queue pairs that
// are connected by number.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "tests/verbs-programs/answers/end.h"

namespace nd::verbs_programs {
namespace {

// An identifier with a device.
rdma_cm_id* Bound(const End& end, std::uint16_t port = 0) {
  rdma_cm_id* id = end.NewIdentifier();
  sockaddr_storage address = end.Address(end.place().address, port);
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0) end.Cm("rdma_bind_addr", -1);
  return id;
}

int Bind(const End& end, rdma_cm_id* id, const char* text, std::uint16_t port) {
  sockaddr_storage address = end.Address(text, port);
  return rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address));
}

void Binds(End& end) {
  end.Cm("rdma_bind_addr of a foreign address", Bind(end, end.NewIdentifier(), "192.0.2.1", 0));
  rdma_cm_id* first = Bound(end);
  const std::uint16_t port = ntohs(rdma_get_src_port(first));
  const std::string& here = end.place().address;
  end.Cm("rdma_bind_addr of a port in use", Bind(end, end.NewIdentifier(), here.c_str(), port));
  end.Cm("rdma_bind_addr again", Bind(end, first, here.c_str(), port));
  end.Cm("rdma_listen", rdma_listen(first, 1));
  end.Cm("rdma_listen again", rdma_listen(first, 1));
  rdma_cm_id* any = end.NewIdentifier();
  end.Cm("rdma_bind_addr of any address", Bind(end, any, "0.0.0.0", 0));
  end.Say("device of any address", any->verbs == nullptr ? "none" : "one");
  end.Cm("rdma_listen on any address", rdma_listen(any, 0));
  end.Say("port of any address", rdma_get_src_port(any) != 0 ? "one" : "none");
  end.Cm("rdma_listen unbound", rdma_listen(end.NewIdentifier(), 1));
  rdma_cm_id* low = end.NewIdentifier();
  end.Cm("rdma_bind_addr of a low port", Bind(end, low, here.c_str(), 703));
  end.Cm("rdma_destroy_id", rdma_destroy_id(first));
  end.Cm("rdma_bind_addr of a port that is free again", Bind(end, end.NewIdentifier(), here.c_str(), port));
}

// Calls that librdmacm itself judges by the device of the identifier are left out, because it crashes without
// a device.
void WrongStates(End& end) {
  rdma_conn_param parameters = Parameters();
  rdma_cm_id* bound = Bound(end);
  end.Cm("rdma_resolve_route bound", rdma_resolve_route(bound, 1000));
  end.Cm("rdma_connect bound", rdma_connect(bound, &parameters));
  end.Cm("rdma_accept bound", rdma_accept(bound, &parameters));
  end.Cm("rdma_reject bound", rdma_reject(bound, nullptr, 0));
  end.Cm("rdma_disconnect bound", rdma_disconnect(bound));
  rdma_cm_id* listener = Bound(end);
  rdma_listen(listener, 1);
  end.Cm("rdma_connect listening", rdma_connect(listener, &parameters));
  end.Cm("rdma_disconnect listening", rdma_disconnect(listener));
  end.Cm("rdma_accept listening", rdma_accept(listener, &parameters));
  rdma_cm_id* resolved = end.Resolve(ntohs(rdma_get_src_port(listener)));
  end.Cm("rdma_disconnect resolved", rdma_disconnect(resolved));
  end.Cm("rdma_listen resolved", rdma_listen(resolved, 1));
  end.Cm("rdma_resolve_route again", rdma_resolve_route(resolved, 1000));
  rdma_cm_id* second = nullptr;
  end.Cm("rdma_create_id of a bad port space",
         rdma_create_id(listener->channel, &second, nullptr, static_cast<rdma_port_space>(0x177)));
  rdma_cm_event* event = nullptr;
  fcntl(listener->channel->fd, F_SETFL, fcntl(listener->channel->fd, F_GETFL) | O_NONBLOCK);
  end.Cm("rdma_get_cm_event without one", rdma_get_cm_event(listener->channel, &event));
  int value = 1;
  end.Cm("rdma_set_option of an unknown option",
         rdma_set_option(bound, RDMA_OPTION_ID, 77, &value, sizeof value));
  end.Cm("rdma_set_option of an unknown level",
         rdma_set_option(bound, 77, RDMA_OPTION_ID_TOS, &value, sizeof value));
  end.Cm("rdma_set_option of a bad length",
         rdma_set_option(bound, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value, 1));
  end.Cm("rdma_set_option REUSEADDR", rdma_set_option(end.NewIdentifier(), RDMA_OPTION_ID,
                                                      RDMA_OPTION_ID_REUSEADDR, &value, sizeof value));
}

ibv_qp* MakePair(ibv_pd* domain, ibv_cq* queue, ibv_qp_cap cap, ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.cap = cap;
  wanted.qp_type = type;
  return ibv_create_qp(domain, &wanted);
}

void Objects(End& end) {
  ibv_context* context = Bound(end)->verbs;
  ibv_pd* domain = ibv_alloc_pd(context);
  ibv_cq* queue = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  end.Made("ibv_create_cq", queue);
  const auto made = [&](const char* label, const void* object) {
    end.Say(label, object != nullptr ? "made" : NameOf(errno));
  };
  made("ibv_create_cq of 0", ibv_create_cq(context, 0, nullptr, nullptr, 0));
  made("ibv_create_cq of -1", ibv_create_cq(context, -1, nullptr, nullptr, 0));
  made("ibv_create_cq of 2^30", ibv_create_cq(context, 1 << 30, nullptr, nullptr, 0));
  made("ibv_create_cq of vector 1000", ibv_create_cq(context, 16, nullptr, nullptr, 1000));
  made("ibv_create_qp of 2^30 requests", MakePair(domain, queue, {1u << 30, 1, 1, 1, 0}));
  made("ibv_create_qp of 1000 pieces", MakePair(domain, queue, {1, 1, 1000, 1, 0}));
  made("ibv_create_qp of 2^20 bytes inline", MakePair(domain, queue, {1, 1, 1, 1, 1 << 20}));
  ibv_qp* nothing = MakePair(domain, queue, {0, 0, 0, 0, 0});
  made("ibv_create_qp of nothing", nothing);
  const auto registered = [&](const char* label, ibv_mr* region) {
    made(label, region);
    if (region != nullptr) ibv_dereg_mr(region);
  };
  static char bytes[8192];
  registered("ibv_reg_mr of 0 bytes", ibv_reg_mr(domain, bytes, 0, IBV_ACCESS_LOCAL_WRITE));
  registered("ibv_reg_mr with a remote right only", ibv_reg_mr(domain, bytes, 64, IBV_ACCESS_REMOTE_WRITE));
  registered("ibv_reg_mr with atomics only", ibv_reg_mr(domain, bytes, 64, IBV_ACCESS_REMOTE_ATOMIC));
  void* hole = mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  registered("ibv_reg_mr of memory without rights", ibv_reg_mr(domain, hole, 65536, IBV_ACCESS_LOCAL_WRITE));
  munmap(hole, 65536);
  registered("ibv_reg_mr of no memory", ibv_reg_mr(domain, hole, 65536, IBV_ACCESS_LOCAL_WRITE));
  void* constant = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  registered("ibv_reg_mr of constant memory to be written",
             ibv_reg_mr(domain, constant, 4096, IBV_ACCESS_LOCAL_WRITE));
  registered("ibv_reg_mr of constant memory to be read",
             ibv_reg_mr(domain, constant, 4096, IBV_ACCESS_REMOTE_READ));

  ibv_mr* region = ibv_reg_mr(domain, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
  end.Verb("ibv_dealloc_pd in use", ibv_dealloc_pd(domain));
  ibv_qp* pair = MakePair(domain, queue, {4, 4, 1, 1, 0});
  end.Made("ibv_create_qp", pair);
  if (pair == nullptr) return;
  end.Verb("ibv_destroy_cq in use", ibv_destroy_cq(queue));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  end.Verb("ibv_modify_qp from RESET to RTS", ibv_modify_qp(pair, &attributes, IBV_QP_STATE));
  attributes.qp_state = IBV_QPS_INIT;
  end.Verb("ibv_modify_qp to INIT without attributes", ibv_modify_qp(pair, &attributes, IBV_QP_STATE));
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  attributes.port_num = 9;
  end.Verb("ibv_modify_qp to INIT at port 9", ibv_modify_qp(pair, &attributes, kInit));
  attributes.port_num = 1;
  end.Verb("ibv_modify_qp to INIT", ibv_modify_qp(pair, &attributes, kInit));
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(bytes), 64, region->lkey};
  ibv_send_wr send{}, *bad = nullptr;
  send.sg_list = &piece;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  end.Verb("ibv_post_send in INIT", ibv_post_send(pair, &send, &bad));
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  receive.sg_list = &piece;
  receive.num_sge = 1;
  end.Verb("ibv_post_recv in INIT", ibv_post_recv(pair, &receive, &bad_receive));
  attributes.qp_state = IBV_QPS_ERR;
  end.Verb("ibv_modify_qp to ERR", ibv_modify_qp(pair, &attributes, IBV_QP_STATE));
  ibv_wc completion;
  end.Say("flushed in ERR", std::to_string(ibv_poll_cq(queue, 1, &completion)));
  attributes.qp_state = IBV_QPS_RESET;
  end.Verb("ibv_modify_qp to RESET", ibv_modify_qp(pair, &attributes, IBV_QP_STATE));
  end.Verb("ibv_post_recv in RESET", ibv_post_recv(pair, &receive, &bad_receive));
  end.Verb("ibv_destroy_qp", ibv_destroy_qp(pair));
  if (nothing != nullptr) ibv_destroy_qp(nothing);
  end.Verb("ibv_destroy_cq", ibv_destroy_cq(queue));
  end.Verb("ibv_dereg_mr", ibv_dereg_mr(region));
  end.Verb("ibv_dealloc_pd", ibv_dealloc_pd(domain));
}

void Queries(End& end) {
  ibv_context* context = Bound(end)->verbs;
  ibv_port_attr port{}, other{};
  end.Verb("ibv_query_port of port 1", ibv_query_port(context, 1, &port));
  end.Say("state of the port", ibv_port_state_str(port.state));
  end.Verb("ibv_query_port of port 2", ibv_query_port(context, 2, &other));
  ibv_gid gid{};
  end.Say("ibv_query_gid of entry 0", ibv_query_gid(context, 1, 0, &gid) == 0 ? "0" : "fails");
  end.Say("ibv_query_gid of entry 5000", ibv_query_gid(context, 1, 5000, &gid) == 0 ? "0" : "fails");
  std::uint16_t key = 0;
  end.Say("ibv_query_pkey of entry 0",
          ibv_query_pkey(context, 1, 0, &key) == 0 ? std::to_string(ntohs(key)) : "fails");
  end.Say("ibv_query_pkey of entry 5000", ibv_query_pkey(context, 1, 5000, &key) == 0 ? "0" : "fails");
  ibv_device_attr device{};
  end.Verb("ibv_query_device", ibv_query_device(context, &device));
  end.Say("ports", std::to_string(device.phys_port_cnt));
  end.Say("atomics", std::to_string(device.atomic_cap));
  end.Say("transport", std::to_string(context->device->transport_type));
  end.Say("kind of node", std::to_string(context->device->node_type));
  end.Say("link layer", std::to_string(port.link_layer));
}

// The entry of the table of addresses that has the address of the place, as RoCE v2 where there are several.
int EntryOf(const End& end, ibv_context* context) {
  const sockaddr_storage storage = end.Address(end.place().address, 0);
  const auto* address = reinterpret_cast<const sockaddr_in*>(&storage);
  int entry = 0;
  for (int i = 0; i < 16; ++i) {
    ibv_gid gid{};
    if (ibv_query_gid(context, 1, i, &gid) == 0 && std::memcmp(gid.raw + 12, &address->sin_addr, 4) == 0)
      entry = i;
  }
  return entry;
}

int ToRts(ibv_context* context, ibv_qp* pair, std::uint32_t number, int entry, const char** step) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = number;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(entry);
  attributes.ah_attr.grh.hop_limit = 64;
  ibv_query_gid(context, 1, entry, &attributes.ah_attr.grh.dgid);
  *step = "ibv_modify_qp to RTR";
  if (const int error = ibv_modify_qp(pair, &attributes,
                                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return error;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = 3;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 1;
  *step = "ibv_modify_qp to RTS";
  return ibv_modify_qp(pair, &attributes,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC);
}

void ByNumber(End& end) {
  Data first(end, Bound(end)), second(end, Bound(end));
  const int entry = EntryOf(end, first.id->verbs);
  const char* step = "";
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  for (Data* data : {&first, &second}) {
    init.qp_state = IBV_QPS_RESET;
    ibv_modify_qp(data->id->qp, &init, IBV_QP_STATE);
    init.qp_state = IBV_QPS_INIT;
    const int error = ibv_modify_qp(data->id->qp, &init,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error != 0) end.Verb("ibv_modify_qp to INIT", error);
  }
  for (const auto& [data, peer] : {std::pair{&first, &second}, std::pair{&second, &first}}) {
    const int error = ToRts(data->id->verbs, data->id->qp, peer->id->qp->qp_num, entry, &step);
    end.Verb(step, error);
    if (error != 0) return;
  }
  second.Receive(1), second.Receive(2);
  end.Verb("ibv_post_send", first.Send(10));
  first.Sent("send");
  second.Received("receive");
  end.Verb("ibv_destroy_qp of the peer", (rdma_destroy_qp(second.id), 0));
  first.Receive(3);
  first.Received("receive after the peer's end", 1, 1);
  first.State("state after the peer's end");
  end.Verb("ibv_post_send to nobody", first.Send(11));
  end.Verb("ibv_post_send to nobody again", first.Send(12));
  first.Sent("sends to nobody", 2);
  first.State("state");
  first.Received("receive");
  first.DeviceEvent("event of the device", 1);
}

const Row kRows3[] = {{"binds", nullptr, Binds},        {"wrong_states", nullptr, WrongStates},
                      {"objects", nullptr, Objects},    {"queries", nullptr, Queries},
                      {"by_number", nullptr, ByNumber}, {nullptr, nullptr, nullptr}};

}  // namespace

const Row* const kObjects = kRows3;

}  // namespace nd::verbs_programs
