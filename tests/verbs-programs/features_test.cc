// SPDX-License-Identifier: Apache-2.0
// Features of queue pairs and memory, as a program of libibverbs sees them. features_test.sh runs it by
// 'ndctl run' on one broker.
#include <dirent.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(20);
constexpr auto kMoment = std::chrono::milliseconds(200);  // In which nothing must arrive.
constexpr unsigned kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

ibv_device* TheDevice() {
  static ibv_device* const device = [] {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) std::exit(2);  // The library has said why.
    ibv_device* first = list[0];
    ibv_free_device_list(list);
    return first;
  }();
  return device;
}

class Features : public ::testing::Test {
 protected:
  Features() {
    context = ibv_open_device(TheDevice());
    domain = ibv_alloc_pd(context);
    ibv_query_gid(context, 1, 0, &gid);
  }
  ~Features() override {
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }

  // Null: no event within the time.
  std::unique_ptr<ibv_async_event> Event(std::chrono::milliseconds patience = kPatience) {
    pollfd wanted{context->async_fd, POLLIN, 0};
    if (poll(&wanted, 1, static_cast<int>(patience.count())) != 1) return nullptr;
    auto event = std::make_unique<ibv_async_event>();
    EXPECT_EQ(ibv_get_async_event(context, event.get()), 0);
    return event;
  }

  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_gid gid{};
};

struct Options {
  ibv_qp_type type = IBV_QPT_RC;
  unsigned rights = kAll;
  ibv_srq* srq = nullptr;
  int completions = 64;
};

// A queue pair with its completion queue, and memory of which the first half is sent and the second received.
struct End {
  End(ibv_context* context, ibv_pd* domain, const ibv_gid& gid_of_all, const Options& options = {})
      : gid(gid_of_all), type(options.type) {
    queue = ibv_create_cq(context, options.completions, nullptr, nullptr, 0);
    region = ibv_reg_mr(domain, bytes.data(), bytes.size(), static_cast<int>(kAll));
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.srq = options.srq;
    wanted.cap = {8, 8, 1, 1, 0};
    wanted.qp_type = options.type;
    wanted.sq_sig_all = 1;
    pair = ibv_create_qp(domain, &wanted);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = options.rights;
    EXPECT_EQ(ibv_modify_qp(pair, &attributes,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
  }
  ~End() {
    if (pair != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(pair), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    EXPECT_EQ(ibv_destroy_cq(queue), 0);
  }
  void Name(const End& peer) {
    const bool reliable = type == IBV_QPT_RC;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = peer.pair->qp_num;
    attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 4;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = gid;
    attributes.ah_attr.port_num = 1;
    attributes.timeout = 4;
    attributes.retry_cnt = attributes.rnr_retry = 7;
    const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const int answers = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    ASSERT_EQ(ibv_modify_qp(pair, &attributes, to_rtr | (reliable ? answers : 0)), 0);
    attributes.qp_state = IBV_QPS_RTS;
    const int retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    ASSERT_EQ(ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN | (reliable ? retries : 0)), 0);
  }

  std::uint64_t Address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(bytes.data() + offset);
  }
  int Receive(ibv_sge sge) {
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = 1;
    request.sg_list = &sge;
    request.num_sge = 1;
    return ibv_post_recv(pair, &request, &bad);
  }
  int Post(ibv_wr_opcode opcode, ibv_sge sge, std::uint64_t address = 0, std::uint32_t key = 0) {
    ibv_send_wr request{}, *bad = nullptr;
    request.wr_id = 2;
    request.opcode = opcode;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
    return ibv_post_send(pair, &request, &bad);
  }
  ibv_sge Out() const { return {Address(0), 64, region->lkey}; }
  ibv_sge In() const { return {Address(64), 64, region->lkey}; }
  ibv_wc Next() {
    ibv_wc completion{};
    for (const auto until = Clock::now() + kPatience; Clock::now() < until;) {
      if (ibv_poll_cq(queue, 1, &completion) == 1) return completion;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no completion";
    completion.status = IBV_WC_GENERAL_ERR;
    return completion;
  }

  alignas(8) std::array<char, 128> bytes{};
  const ibv_gid gid;
  const ibv_qp_type type;
  ibv_cq* queue;
  ibv_mr* region;
  ibv_qp* pair;
};

void Connect(End& a, End& b) {
  a.Name(b);
  b.Name(a);
}

struct SharedQueue {
  SharedQueue(ibv_pd* domain, std::uint32_t depth) {
    ibv_srq_init_attr wanted{};
    wanted.attr = {depth, 1, 0};
    queue = ibv_create_srq(domain, &wanted);
  }
  ~SharedQueue() { EXPECT_EQ(ibv_destroy_srq(queue), 0); }
  void Receive(ibv_sge sge) {
    ibv_recv_wr request{}, *bad = nullptr;
    request.sg_list = &sge;
    request.num_sge = 1;
    ASSERT_EQ(ibv_post_srq_recv(queue, &request, &bad), 0);
  }
  int SetLimit(std::uint32_t limit) {
    ibv_srq_attr attributes{};
    attributes.srq_limit = limit;
    return ibv_modify_srq(queue, &attributes, IBV_SRQ_LIMIT);
  }
  std::uint32_t limit() {
    ibv_srq_attr attributes{};
    EXPECT_EQ(ibv_query_srq(queue, &attributes), 0);
    return attributes.srq_limit;
  }
  ibv_srq* queue;
};

TEST_F(Features, ASharedReceiveQueueTellsItsLimitOnce) {
  SharedQueue shared(domain, 8);
  End a(context, domain, gid), b(context, domain, gid, {.srq = shared.queue});
  Connect(a, b);
  for (int i = 0; i < 5; ++i) shared.Receive(b.In());
  EXPECT_EQ(shared.SetLimit(9), EINVAL);
  ASSERT_EQ(shared.SetLimit(4), 0);
  EXPECT_EQ(shared.limit(), 4u);
  const auto send = [&] {
    ASSERT_EQ(a.Post(IBV_WR_SEND, a.Out()), 0);
    EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.Next().status, IBV_WC_SUCCESS);
  };
  send();
  EXPECT_EQ(Event(kMoment), nullptr);
  send();
  const auto event = Event();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event->element.srq, shared.queue);
  ibv_ack_async_event(event.get());
  EXPECT_EQ(shared.limit(), 0u);
  send();
  EXPECT_EQ(Event(kMoment), nullptr);
}

TEST_F(Features, AQueuePairInErrorTellsItsLastReceive) {
  SharedQueue shared(domain, 8);
  End a(context, domain, gid), b(context, domain, gid, {.srq = shared.queue});
  Connect(a, b);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, IBV_QP_STATE), 0);
  EXPECT_EQ(Event(kMoment), nullptr) << "this one has receives of its own";
  ASSERT_EQ(ibv_modify_qp(b.pair, &attributes, IBV_QP_STATE), 0);
  ASSERT_EQ(ibv_modify_qp(b.pair, &attributes, IBV_QP_STATE), 0);
  const auto event = Event();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event->element.qp, b.pair);
  EXPECT_EQ(Event(kMoment), nullptr) << "told twice";
  // It is destroyed when the program has acknowledged the event.
  auto destroyed = std::async(std::launch::async,
                              [pair = std::exchange(b.pair, nullptr)] { return ibv_destroy_qp(pair); });
  EXPECT_EQ(destroyed.wait_for(kMoment), std::future_status::timeout);
  ibv_ack_async_event(event.get());
  EXPECT_EQ(destroyed.get(), 0);
}

TEST_F(Features, AnEventOfADestroyedQueuePairIsDropped) {
  SharedQueue shared(domain, 8);
  {
    End b(context, domain, gid, {.srq = shared.queue});
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(b.pair, &attributes, IBV_QP_STATE), 0);
  }
  EXPECT_EQ(Event(kMoment), nullptr);
}

TEST_F(Features, AResetForgetsCompletions) {
  End a(context, domain, gid);
  ASSERT_EQ(a.Receive(a.In()), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, IBV_QP_STATE), 0);
  attributes.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, IBV_QP_STATE), 0);
  ibv_wc completion;
  EXPECT_EQ(ibv_poll_cq(a.queue, 1, &completion), 0);
}

TEST_F(Features, UcHasNoAnswers) {
  const Options uc{.type = IBV_QPT_UC};
  End a(context, domain, gid, uc), b(context, domain, gid, uc);
  Connect(a, b);
  std::strcpy(a.bytes.data(), "unreliable");
  ASSERT_EQ(b.Receive(b.In()), 0);
  ASSERT_EQ(a.Post(IBV_WR_SEND, a.Out()), 0);
  EXPECT_EQ(b.Next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(b.bytes.data() + 64, "unreliable");
  ASSERT_EQ(a.Post(IBV_WR_RDMA_WRITE, a.Out(), b.Address(0), b.region->rkey), 0);
  EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.Post(IBV_WR_RDMA_READ, a.In(), b.Address(0), b.region->rkey), EINVAL);
  EXPECT_EQ(a.Post(IBV_WR_ATOMIC_FETCH_AND_ADD, {a.Address(64), 8, a.region->lkey}), EINVAL);
}

TEST_F(Features, TheRightsOfTheQueuePairCount) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    const unsigned other = opcode == IBV_WR_RDMA_WRITE ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    End a(context, domain, gid), b(context, domain, gid, {.rights = other | IBV_ACCESS_LOCAL_WRITE});
    Connect(a, b);
    ASSERT_EQ(a.Post(opcode, a.In(), b.Address(0), b.region->rkey), 0);
    EXPECT_EQ(a.Next().status, IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_F(Features, RequestsNameTheIovaOfARegion) {
  End a(context, domain, gid), b(context, domain, gid);
  Connect(a, b);
  constexpr std::uint64_t kBase = 0x4000;
  std::array<char, 256> there{}, here{};
  ibv_mr* theirs = ibv_reg_mr_iova(domain, there.data(), there.size(), kBase, static_cast<int>(kAll));
  ibv_mr* mine = ibv_reg_mr_iova(domain, here.data(), here.size(), 2 * kBase, static_cast<int>(kAll));
  ASSERT_TRUE(theirs != nullptr && mine != nullptr);
  std::strcpy(here.data() + 32, "at an iova");
  const ibv_sge from{2 * kBase + 32, 64, mine->lkey};
  ASSERT_EQ(a.Post(IBV_WR_RDMA_WRITE, from, kBase + 128, theirs->rkey), 0);
  EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(there.data() + 128, "at an iova");
  ASSERT_EQ(b.Receive({kBase, 64, theirs->lkey}), 0);
  ASSERT_EQ(a.Post(IBV_WR_SEND, from), 0);
  EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.Next().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(there.data(), "at an iova");
  EXPECT_EQ(ibv_dereg_mr(mine), 0);
  EXPECT_EQ(ibv_dereg_mr(theirs), 0);
}

TEST_F(Features, AWindowEndsByTheSendOfThePeer) {
  End a(context, domain, gid), b(context, domain, gid);
  Connect(a, b);
  ibv_mw* window = ibv_alloc_mw(domain, IBV_MW_TYPE_2);
  ASSERT_NE(window, nullptr);
  ibv_send_wr bind{}, *bad = nullptr;
  bind.opcode = IBV_WR_BIND_MW;
  bind.bind_mw.mw = window;
  bind.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  bind.bind_mw.bind_info = {b.region, b.Address(0), 64, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_post_send(b.pair, &bind, &bad), 0);
  const ibv_wc bound = b.Next();
  EXPECT_EQ(bound.status, IBV_WC_SUCCESS);
  EXPECT_EQ(bound.opcode, IBV_WC_BIND_MW);
  ASSERT_EQ(a.Post(IBV_WR_RDMA_WRITE, a.Out(), b.Address(0), bind.bind_mw.rkey), 0);
  EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(b.region), EBUSY);
  ASSERT_EQ(b.Receive(b.In()), 0);
  ibv_send_wr ending{};
  ending.opcode = IBV_WR_SEND_WITH_INV;
  ending.invalidate_rkey = bind.bind_mw.rkey;
  ASSERT_EQ(ibv_post_send(a.pair, &ending, &bad), 0);
  const ibv_wc told = b.Next();
  EXPECT_EQ(told.status, IBV_WC_SUCCESS);
  EXPECT_NE(told.wc_flags & IBV_WC_WITH_INV, 0u);
  EXPECT_EQ(told.invalidated_rkey, bind.bind_mw.rkey);
  EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(a.Post(IBV_WR_RDMA_WRITE, a.Out(), b.Address(0), bind.bind_mw.rkey), 0);
  EXPECT_EQ(a.Next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

TEST_F(Features, AWindowIsBoundOnItsDomainOnly) {
  End a(context, domain, gid), b(context, domain, gid);
  Connect(a, b);
  ibv_pd* other = ibv_alloc_pd(context);
  ibv_mw* window = ibv_alloc_mw(other, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  const std::uint32_t key = window->rkey;
  ibv_mw_bind bind{};
  EXPECT_EQ(ibv_bind_mw(b.pair, window, &bind), EPERM);
  EXPECT_EQ(window->rkey, key);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  window = ibv_alloc_mw(domain, IBV_MW_TYPE_1);
  ibv_mr* closed = ibv_reg_mr(domain, b.bytes.data(), 64, IBV_ACCESS_LOCAL_WRITE);
  bind.bind_info = {closed, b.Address(0), 64, IBV_ACCESS_REMOTE_WRITE};
  EXPECT_EQ(ibv_bind_mw(b.pair, window, &bind), EINVAL) << "a region without IBV_ACCESS_MW_BIND";
  EXPECT_EQ(ibv_dereg_mr(closed), 0);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(Features, AnOverrunOfACompletionQueueIsTold) {
  End a(context, domain, gid, {.completions = 1});
  for (int i = 0; i < 8; ++i) ASSERT_EQ(a.Receive(a.In()), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(a.pair, &attributes, IBV_QP_STATE), 0);
  ibv_wc completion;
  int got = 1;
  for (int polls = 0; got > 0 && polls < 8; ++polls) got = ibv_poll_cq(a.queue, 1, &completion);
  EXPECT_EQ(got, -1);
  const auto event = Event();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event->element.cq, a.queue);
  ibv_ack_async_event(event.get());
  EXPECT_EQ(ibv_poll_cq(a.queue, 1, &completion), -1);
  EXPECT_EQ(Event(kMoment), nullptr) << "told twice";
}

// Runs ndctl on the broker of this test.
bool Administer(const std::string& words) {
  const char* program = std::getenv("NDCTL");
  return program != nullptr &&
         std::system((std::string(program) + " --yes " + words + " > /dev/null").c_str()) == 0;
}

TEST_F(Features, ADisabledAdapterIsALinkThatIsDown) {
  const End first(context, domain, gid);
  const std::string name = ibv_get_device_name(TheDevice());
  const auto await = [&](ibv_event_type type, ibv_port_state state) {
    const auto event = Event();
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->event_type, type);
    EXPECT_EQ(event->element.port_num, 1);
    ibv_ack_async_event(event.get());
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    EXPECT_EQ(port.state, state);
  };
  ASSERT_TRUE(Administer("adapter disable " + name));
  await(IBV_EVENT_PORT_ERR, IBV_PORT_DOWN);
  ASSERT_TRUE(Administer("adapter enable " + name));
  await(IBV_EVENT_PORT_ACTIVE, IBV_PORT_ACTIVE);
  End a(context, domain, gid), b(context, domain, gid);
  Connect(a, b);
  ASSERT_EQ(b.Receive(b.In()), 0);
  ASSERT_EQ(a.Post(IBV_WR_SEND, a.Out()), 0);
  EXPECT_EQ(a.Next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b.Next().status, IBV_WC_SUCCESS);
}

std::string LineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::set<std::string> NamesIn(const std::string& path) {
  std::set<std::string> names;
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') names.insert(entry->d_name);
  }
  closedir(folder);
  return names;
}

TEST_F(Features, FilesDescribeTheDevice) {
  const std::string name = ibv_get_device_name(TheDevice());
  EXPECT_EQ(NamesIn("/sys/class/infiniband"), std::set{name});
  const std::string folder = TheDevice()->ibdev_path;
  EXPECT_EQ(LineOf(folder + "/node_type"), "1: CA");
  EXPECT_EQ(LineOf(folder + "/ports/1/state"), "4: ACTIVE");
  EXPECT_EQ(LineOf(folder + "/ports/1/gid_attrs/types/0"), "RoCE v2");
  EXPECT_EQ(LineOf(folder + "/ports/1/gids/0"), "0000:0000:0000:0000:0000:ffff:7f00:0001");
  EXPECT_EQ(LineOf(folder + "/ports/1/gid_attrs/ndevs/0"), "lo");
  EXPECT_EQ(NamesIn(folder + "/device/net"), std::set<std::string>{"lo"});
  EXPECT_EQ(LineOf(std::string(TheDevice()->dev_path) + "/ibdev"), name);
  EXPECT_EQ(access("/sys/class/infiniband/another0/node_type", F_OK), -1);
  EXPECT_EQ(access((std::string("/dev/infiniband/") + TheDevice()->dev_name).c_str(), R_OK | W_OK), 0);
  EXPECT_EQ(access("/dev/infiniband/uverbs77", F_OK), -1);
}

}  // namespace

// A child uses devices that its parent has only opened. First, because the other cases use them.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ibv_context* context = ibv_open_device(TheDevice());
  const pid_t child = fork();
  if (child == 0) {
    const bool works =
        ibv_alloc_pd(context) != nullptr && ibv_create_cq(context, 1, nullptr, nullptr, 0) != nullptr;
    if (!works) std::perror("in a child");
    _exit(works ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) {
    std::fprintf(stderr, "FAIL: a child cannot use the devices that its parent has opened\n");
    return 1;
  }
  ibv_close_device(context);
  return RUN_ALL_TESTS();
}
