// SPDX-License-Identifier: Apache-2.0
// kernel_peer serve|connect ADDRESS PORT SCENARIO...: an ordinary rdma_cm program that shares no code with
// this project. One connection for each scenario, in order; tests/vm/soft_peer.cc is the other end and has
// the list.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST (16u << 20)
enum { OUT = 0, IN = MOST, TARGET = 2 * MOST, ALL = 3 * MOST };
static const uint32_t kSizes[] = {1, 100, 1448, 4096, 65536, 1u << 20, MOST};

struct memory {  // Of the other end, as it says in its private data; host order, both ends are one machine.
  uint64_t address;
  uint32_t key, magic;
};
enum { MAGIC = 0x4d454d31, SAYS = 60 };  // Bytes of private data: the memory, then text, then zeros.

static struct rdma_event_channel* channel;
static struct rdma_cm_id* id;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_mr* mr;
static unsigned char* buffer;
static struct memory peer;
static const char* failure;
static char reason[256];

static int Fail(const char* format, ...) {
  va_list list;
  va_start(list, format);
  if (failure == NULL) {
    vsnprintf(reason, sizeof reason, format, list);
    failure = reason;
  }
  va_end(list);
  return -1;
}

static void Fill(unsigned char* at, uint32_t length, uint32_t seed) {
  uint32_t i;
  for (i = 0; i + 4 <= length; i += 4) {
    uint32_t word = i / 4 * 2654435761u ^ seed;
    memcpy(at + i, &word, 4);
  }
  for (; i < length; ++i) at[i] = (unsigned char)(i + seed);
}
static int Check(const unsigned char* at, uint32_t length, uint32_t seed, const char* what) {
  uint32_t i;
  for (i = 0; i + 4 <= length; i += 4) {
    uint32_t word = i / 4 * 2654435761u ^ seed;
    if (memcmp(at + i, &word, 4) != 0) return Fail("%s of %u bytes: wrong at %u", what, length, i);
  }
  for (; i < length; ++i) {
    if (at[i] != (unsigned char)(i + seed)) return Fail("%s of %u bytes: wrong at %u", what, length, i);
  }
  return 0;
}

// The next event must be `wanted`; a copy of its private data and of the two numbers.
static int Event(enum rdma_cm_event_type wanted, struct rdma_cm_event* copy, unsigned char* data) {
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(channel, &event) != 0) return Fail("rdma_get_cm_event");
  *copy = *event;
  memset(data, 0, 256);
  if (event->param.conn.private_data != NULL) {
    memcpy(data, event->param.conn.private_data, event->param.conn.private_data_len);
  }
  rdma_ack_cm_event(event);
  if (copy->event == wanted) return 0;
  return Fail("event %s (%d) instead of %s", rdma_event_str(copy->event), copy->status,
              rdma_event_str(wanted));
}

static int PostReceive(void) {
  struct ibv_sge sge = {(uintptr_t)buffer + IN, MOST, mr->lkey};
  struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(id->qp, &request, &bad) == 0 ? 0 : Fail("ibv_post_recv");
}

static int Resources(void) {
  pd = ibv_alloc_pd(id->verbs);
  cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
  mr = ibv_reg_mr(pd, buffer, ALL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  struct ibv_qp_init_attr attr = {
      .send_cq = cq,
      .recv_cq = cq,
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
  if (pd == NULL || cq == NULL || mr == NULL || rdma_create_qp(id, pd, &attr) != 0)
    return Fail("no resources");
  return PostReceive();
}

// What completed before it was asked for: the answer to a Send may come before the Send itself is done.
static struct ibv_wc early;
static int have_early;

static int Wait(enum ibv_wc_opcode wanted, uint32_t length) {
  struct ibv_wc wc;
  for (;;) {
    if (have_early && early.opcode == wanted) {
      wc = early;
      have_early = 0;
      break;
    }
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n < 0) return Fail("ibv_poll_cq");
    if (n == 0) {
      usleep(20);
      continue;
    }
    if (wc.status != IBV_WC_SUCCESS) return Fail("%s", ibv_wc_status_str(wc.status));
    if (wc.opcode == wanted) break;
    if (have_early) return Fail("completion %d instead of %d", wc.opcode, wanted);
    early = wc;
    have_early = 1;
  }
  if (wanted == IBV_WC_RECV && wc.byte_len != length)
    return Fail("%u bytes instead of %u", wc.byte_len, length);
  return 0;
}
static int Post(enum ibv_wr_opcode opcode, uint32_t at, uint32_t length, uint32_t remote, uint32_t key) {
  struct ibv_sge sge = {(uintptr_t)buffer + at, length, mr->lkey};
  struct ibv_send_wr request = {.sg_list = &sge,
                                .num_sge = 1,
                                .opcode = opcode,
                                .send_flags = IBV_SEND_SIGNALED,
                                .wr.rdma = {peer.address + remote, key}},
                     *bad;
  return ibv_post_send(id->qp, &request, &bad) == 0 ? 0 : Fail("ibv_post_send");
}
static int Send(uint32_t length) {
  return Post(IBV_WR_SEND, OUT, length, 0, 0) ? -1 : Wait(IBV_WC_SEND, 0);
}
static int Receive(uint32_t length) {
  return Wait(IBV_WC_RECV, length);
}

// The other end begins.
static int Exchange(void) {
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    const uint32_t n = kSizes[i];
    if (Receive(n) || Check(buffer + IN, n, 1, "Send") || PostReceive()) return -1;
    Fill(buffer + OUT, n, 2);
    if (Send(n)) return -1;
    if (Receive(1) || PostReceive() || Check(buffer + TARGET, n, 3, "Write")) return -1;
    Fill(buffer + OUT, n, 6);  // Written now, read by the other end later.
    if (Post(IBV_WR_RDMA_WRITE, OUT, n, TARGET, peer.key) || Wait(IBV_WC_RDMA_WRITE, 0) || Send(1)) return -1;
    if (Receive(1) || PostReceive()) return -1;
    if (Post(IBV_WR_RDMA_READ, TARGET, n, OUT, peer.key) || Wait(IBV_WC_RDMA_READ, 0)) return -1;
    if (Check(buffer + TARGET, n, 5, "Read") || Send(1)) return -1;
  }
  return 0;
}

// The connection ends; siw flushes the posted receive after a Write, and after a Read only with the queue
// pair.
static int Broken(void) {
  struct rdma_cm_event event;
  unsigned char data[256];
  struct ibv_wc wc;
  if (Event(RDMA_CM_EVENT_DISCONNECTED, &event, data)) return -1;
  if (ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS) {
    return Fail("a request succeeded on a broken connection");
  }
  return 0;
}

static int Established(const char* scenario, int active) {
  struct rdma_cm_event event;
  unsigned char data[256];
  // This side has the first word. As the initiator, because MPA gives it that. As the responder, because a
  // kernel up to 6.12 at least does not survive a forbidden request that comes in one batch with the
  // ready-to-receive frame (BUG in iwcm.c): the other end must know that the connection is up here.
  if (Send(1)) return -1;
  if (strcmp(scenario, "exchange") == 0) {
    if (Exchange()) return -1;
    if (active) {
      // The goodbye comes from here; the last word of the other end says that it has seen everything.
      if (Receive(1) || rdma_disconnect(id)) return Fail("rdma_disconnect");
    }
    return Event(RDMA_CM_EVENT_DISCONNECTED, &event, data);
  }
  if (strcmp(scenario, "their-bad-write") == 0 || strcmp(scenario, "their-bad-read") == 0) return Broken();
  if (strcmp(scenario, "our-bad-write") == 0) {
    if (Receive(1) || Post(IBV_WR_RDMA_WRITE, OUT, 64, TARGET, peer.key ^ 0x5a5a00)) return -1;
    return Event(RDMA_CM_EVENT_DISCONNECTED, &event, data);
  }
  if (strcmp(scenario, "our-bad-read") == 0) {
    if (Receive(1) || Post(IBV_WR_RDMA_READ, TARGET, 64, OUT, peer.key ^ 0x5a5a00)) return -1;
    return Event(RDMA_CM_EVENT_DISCONNECTED, &event, data);
  }
  return Fail("no scenario called %s", scenario);
}

static void Say(unsigned char* data, const char* text) {
  const struct memory own = {(uintptr_t)buffer, mr == NULL ? 0 : mr->rkey, MAGIC};
  memset(data, 0, SAYS);
  memcpy(data, &own, sizeof own);
  strcpy((char*)data + sizeof own, text);
}
static int Heard(const unsigned char* data, unsigned length, const char* text) {
  memcpy(&peer, data, sizeof peer);
  if (length != SAYS || peer.magic != MAGIC || strcmp((const char*)data + sizeof peer, text) != 0) {
    return Fail("%u bytes of private data, '%s'", length, data + sizeof peer);
  }
  return 0;
}

static int Serve(const char* scenario) {
  struct rdma_cm_event event;
  unsigned char data[256], said[SAYS];
  if (Event(RDMA_CM_EVENT_CONNECT_REQUEST, &event, data)) return -1;
  id = event.id;
  if (Heard(data, event.param.conn.private_data_len, "request of soft")) return -1;
  // It takes 4 reads and wants 2.
  if (event.param.conn.initiator_depth != 4 || event.param.conn.responder_resources != 2) {
    return Fail("offer of %u/%u", event.param.conn.initiator_depth, event.param.conn.responder_resources);
  }
  if (strcmp(scenario, "reject") == 0) {
    Say(said, "not today");
    return rdma_reject(id, said, SAYS) == 0 ? 0 : Fail("rdma_reject");
  }
  if (Resources()) return -1;
  Say(said, "reply of the kernel");
  struct rdma_conn_param param = {
      .private_data = said, .private_data_len = SAYS, .responder_resources = 2, .initiator_depth = 4};
  if (rdma_accept(id, &param) != 0) return Fail("rdma_accept");
  if (Event(RDMA_CM_EVENT_ESTABLISHED, &event, data)) return -1;
  return Established(scenario, 0);
}

static int Connect(const char* scenario, struct sockaddr_in* to) {
  struct rdma_cm_event event;
  unsigned char data[256], said[SAYS];
  if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0 ||
      rdma_resolve_addr(id, NULL, (struct sockaddr*)to, 5000) != 0 ||
      Event(RDMA_CM_EVENT_ADDR_RESOLVED, &event, data) || rdma_resolve_route(id, 5000) != 0 ||
      Event(RDMA_CM_EVENT_ROUTE_RESOLVED, &event, data) || Resources()) {
    return Fail("cannot resolve");
  }
  Say(said, "request of the kernel");
  struct rdma_conn_param param = {
      .private_data = said, .private_data_len = SAYS, .responder_resources = 4, .initiator_depth = 2};
  if (rdma_connect(id, &param) != 0) return Fail("rdma_connect");
  if (strcmp(scenario, "reject") == 0) {
    if (Event(RDMA_CM_EVENT_REJECTED, &event, data)) return -1;
    const unsigned length = event.param.conn.private_data_len;
    return length == 9 && memcmp(data, "not today", 9) == 0 ? 0 : Fail("rejected with %u bytes", length);
  }
  if (Event(RDMA_CM_EVENT_ESTABLISHED, &event, data)) return -1;
  if (Heard(data, event.param.conn.private_data_len, "reply of soft")) return -1;
  return Established(scenario, 1);
}

static void Clean(void) {
  if (id != NULL && id->qp != NULL) rdma_destroy_qp(id);
  if (mr != NULL) ibv_dereg_mr(mr);
  if (cq != NULL) ibv_destroy_cq(cq);
  if (pd != NULL) ibv_dealloc_pd(pd);
  if (id != NULL) rdma_destroy_id(id);
  mr = NULL, cq = NULL, pd = NULL, id = NULL, failure = NULL, have_early = 0;
}

int main(int argc, char** argv) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  struct rdma_cm_id* listener = NULL;
  int failures = 0;
  if (argc < 5 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
    fputs("usage: kernel_peer serve|connect ADDRESS PORT SCENARIO...\n", stderr);
    return 2;
  }
  address.sin_port = htons((uint16_t)atoi(argv[3]));
  setvbuf(stdout, NULL, _IOLBF, 0);
  channel = rdma_create_event_channel();
  buffer = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (channel == NULL || buffer == MAP_FAILED) return 1;
  alarm(600);  // Whatever hangs here would hang the other end as well.
  if (strcmp(argv[1], "serve") == 0) {
    if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(listener, (struct sockaddr*)&address) != 0 || rdma_listen(listener, 16) != 0) {
      perror("listen");
      return 1;
    }
    printf("listening\n");
  }
  for (int i = 4; i < argc; ++i) {
    memset(buffer, 0, ALL);
    if (listener != NULL ? Serve(argv[i]) : Connect(argv[i], &address)) {
      printf("FAIL kernel, %s: %s\n", argv[i], failure);
      ++failures;
    }
    Clean();
  }
  return failures;
}
