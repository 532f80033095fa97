// SPDX-License-Identifier: Apache-2.0
// verbs_fetch_add ADDRESS CLIENTS TIMES [serve]: each of CLIENTS processes adds 1 to one word of the server
// TIMES times. The server compares the sum when all have disconnected; a client compares that the values
// which it finds grow. A program of librdmacm and libibverbs, started by 'ndctl run'.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kDepth = 16;
constexpr char kPort[] = "7180";

struct Word {
  std::uint64_t address;
  std::uint32_t key;
};

int Fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  return 1;
}

rdma_cm_id* Endpoint(const char* address, bool passive) {
  rdma_addrinfo hints{}, *found = nullptr;
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = passive ? RAI_PASSIVE : 0;
  if (rdma_getaddrinfo(address, kPort, &hints, &found) != 0) return nullptr;
  ibv_qp_init_attr wanted{};
  wanted.cap = {kDepth, 1, 1, 1, 0};
  wanted.qp_type = IBV_QPT_RC;
  rdma_cm_id* id = nullptr;
  const int failed = rdma_create_ep(&id, found, nullptr, &wanted);
  rdma_freeaddrinfo(found);
  return failed != 0 ? nullptr : id;
}

rdma_conn_param Parameters() {
  rdma_conn_param parameters{};
  parameters.responder_resources = parameters.initiator_depth = kDepth;
  parameters.retry_count = parameters.rnr_retry_count = 7;
  return parameters;
}

int Serve(const char* address, int clients, std::uint64_t times) {
  rdma_cm_id* listener = Endpoint(address, true);
  if (listener == nullptr || rdma_listen(listener, clients) != 0) return Fail("listen");
  alignas(64) static std::uint64_t word = 0;
  std::vector<rdma_cm_id*> peers;
  ibv_mr* region = nullptr;
  for (int i = 0; i < clients; ++i) {
    rdma_cm_id* peer = nullptr;
    if (rdma_get_request(listener, &peer) != 0) return Fail("rdma_get_request");
    if (region == nullptr) {
      region = ibv_reg_mr(peer->pd, &word, sizeof word, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
      if (region == nullptr) return Fail("ibv_reg_mr");
    }
    const Word mine{reinterpret_cast<std::uintptr_t>(&word), region->rkey};
    rdma_conn_param parameters = Parameters();
    parameters.private_data = &mine;
    parameters.private_data_len = sizeof mine;
    if (rdma_accept(peer, &parameters) != 0) return Fail("rdma_accept");
    peers.push_back(peer);
  }
  for (rdma_cm_id* peer : peers) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(peer->channel, &event) != 0) return Fail("rdma_get_cm_event");
    if (event->event != RDMA_CM_EVENT_DISCONNECTED) return Fail(rdma_event_str(event->event));
    rdma_ack_cm_event(event);
  }
  const std::uint64_t sum = __atomic_load_n(&word, __ATOMIC_SEQ_CST);
  std::printf("the sum is %llu\n", static_cast<unsigned long long>(sum));
  return sum == static_cast<std::uint64_t>(clients) * times ? 0 : 1;
}

// Requests complete in order, so the n-th completion has the result of slot n % kDepth.
int Add(const char* address, std::uint64_t times) {
  rdma_cm_id* id = Endpoint(address, false);
  if (id == nullptr) return Fail("rdma_create_ep");
  std::array<std::uint64_t, kDepth> found{};
  ibv_mr* region = ibv_reg_mr(id->pd, found.data(), sizeof found, IBV_ACCESS_LOCAL_WRITE);
  rdma_conn_param parameters = Parameters();
  if (region == nullptr || rdma_connect(id, &parameters) != 0) return Fail("rdma_connect");
  Word word;
  std::memcpy(&word, id->event->param.conn.private_data, sizeof word);
  std::uint64_t posted = 0, completed = 0, last = 0;
  while (completed < times) {
    while (posted < times && posted - completed < kDepth) {
      ibv_sge sge{reinterpret_cast<std::uintptr_t>(&found[posted % kDepth]), sizeof(std::uint64_t),
                  region->lkey};
      ibv_send_wr request{}, *bad = nullptr;
      request.sg_list = &sge;
      request.num_sge = 1;
      request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      request.send_flags = IBV_SEND_SIGNALED;
      request.wr.atomic.remote_addr = word.address;
      request.wr.atomic.rkey = word.key;
      request.wr.atomic.compare_add = 1;
      if ((errno = ibv_post_send(id->qp, &request, &bad)) != 0) return Fail("ibv_post_send");
      ++posted;
    }
    ibv_wc completion;
    if (ibv_poll_cq(id->send_cq, 1, &completion) == 0) continue;
    if (completion.status != IBV_WC_SUCCESS) return Fail(ibv_wc_status_str(completion.status));
    const std::uint64_t value = found[completed++ % kDepth];
    if (completed > 1 && value <= last) {
      std::fprintf(stderr, "found %llu after %llu\n", static_cast<unsigned long long>(value),
                   static_cast<unsigned long long>(last));
      return 1;
    }
    last = value;
  }
  return rdma_disconnect(id) == 0 ? 0 : Fail("rdma_disconnect");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: verbs_fetch_add ADDRESS CLIENTS TIMES [serve]\n", stderr);
    return 2;
  }
  const auto times = static_cast<std::uint64_t>(std::atoll(argv[3]));
  return argc > 4 ? Serve(argv[1], std::atoi(argv[2]), times) : Add(argv[1], times);
}
