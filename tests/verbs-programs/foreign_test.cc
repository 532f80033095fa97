// SPDX-License-Identifier: Apache-2.0
// Programs that do what no test of RDMA does: fork at any time, close our descriptors, take signals, exit in
// the middle, unmap registered memory. foreign_test.sh runs each case as a process of its own by 'ndctl run'.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "tests/verbs-programs/number_end.h"

namespace nd::verbs_programs {
namespace {

constexpr unsigned kPatienceSeconds = 20;

// The status of a child that runs `body` and exits as a program does. A child that hangs is ended by SIGALRM.
int StatusOfChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatienceSeconds);
    body();
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

sockaddr_in LoopbackAddress(std::uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// A listener of rdma_cm, bound and not listening yet.
struct Bound {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  Bound() {
    EXPECT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in address = LoopbackAddress();
    EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0) << std::strerror(errno);
  }
};

void AwaitEvent(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
  EXPECT_EQ(event->event, wanted);
  rdma_ack_cm_event(event);
}

// A client of rdma_cm asks `port` for a connection, and does not wait for the answer.
void AskForConnection(std::uint16_t port, std::uint32_t number = 0) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address = LoopbackAddress(port);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 1000), 0);
  AwaitEvent(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  AwaitEvent(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param parameters{};
  parameters.qp_num = number;  // Of the program's own queue pair.
  ASSERT_EQ(rdma_connect(id, &parameters), 0) << std::strerror(errno);
}

TEST(Foreign, ForksBeforeTheFirstUse) {
  const auto exchange = [] {
    End a, b;
    Connect(a, b);
    ExpectExchange(a, b, "hello");
  };
  EXPECT_EQ(StatusOfChild(exchange), 0);
  exchange();
}

// The child ends like a program whose destructors destroy everything; the parent goes on.
void DestroyInChild(End& end, ibv_comp_channel* channel) {
  ibv_wc completion;
  EXPECT_LT(ibv_poll_cq(end.sent, 1, &completion), 0);
  EXPECT_EQ(end.Send(1, "child"), ENODEV);
  EXPECT_EQ(end.Receive(1), ENODEV);
  EXPECT_EQ(end.To(IBV_QPS_ERR), ENODEV);
  EXPECT_EQ(ibv_create_cq(fabric().context, 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(ibv_reg_mr(fabric().domain, end.bytes.data(), 1, 0), nullptr);
  EXPECT_EQ(rdma_create_event_channel(), nullptr);
  EXPECT_EQ(ibv_destroy_qp(end.queue_pair), 0);
  EXPECT_EQ(ibv_destroy_cq(end.sent), 0);
  EXPECT_EQ(ibv_dereg_mr(end.region), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dealloc_pd(fabric().domain), 0);
  EXPECT_EQ(ibv_close_device(fabric().context), 0);
}

TEST(Foreign, ForksAfterTheFirstUse) {
  End a, b;
  Connect(a, b);
  ExpectExchange(a, b, "before");
  ibv_comp_channel* channel = ibv_create_comp_channel(fabric().context);
  EXPECT_EQ(StatusOfChild([&] { DestroyInChild(a, channel); }), 0);
  ExpectExchange(a, b, "after");
  ExpectExchange(b, a, "and back");
}

TEST(Foreign, ForksWhileItsThreadsUseRdma) {
  ibv_comp_channel* channel = ibv_create_comp_channel(fabric().context);
  std::atomic<bool> stop{false};
  std::thread user([&stop] {
    while (!stop) {
      End a, b;
      Connect(a, b);
      ExpectExchange(a, b, "busy");
    }
  });
  {
    End end;
    for (int i = 0; i < 30; ++i) EXPECT_EQ(StatusOfChild([&] { DestroyInChild(end, channel); }), 0);
  }
  stop = true;
  user.join();
}

TEST(Foreign, AForkedChildClosesTheChannelOfItsParent) {
  Bound listener;
  EXPECT_EQ(StatusOfChild([&] { close(listener.channel->fd); }), 0);
  EXPECT_EQ(rdma_listen(listener.id, 1), 0) << std::strerror(errno);
}

// As the shell of system() and posix_spawn() may: such a child has the memory of its parent.
TEST(Foreign, AChildOfVforkClosesTheChannelOfItsParent) {
  Bound listener;
  const int fd = listener.channel->fd;
  const pid_t child = vfork();  // NOLINT: what the test is about.
  if (child == 0) {
    close(fd);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(rdma_listen(listener.id, 1), 0) << std::strerror(errno);
}

TEST(Foreign, AnotherFileTakesTheNumberOfTheChannel) {
  Bound listener;
  ASSERT_EQ(rdma_listen(listener.id, 1), 0);
  const std::uint16_t port = ntohs(rdma_get_src_port(listener.id));
  FILE* file = std::tmpfile();
  ASSERT_EQ(dup2(fileno(file), listener.channel->fd), listener.channel->fd);
  // An event would be a write of 8 bytes.
  std::thread client([port] { AskForConnection(port); });
  client.join();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(lseek(fileno(file), 0, SEEK_END), 0) << "the library wrote to the program's file";
  EXPECT_EQ(write(listener.channel->fd, "text", 4), 4) << std::strerror(errno);
  EXPECT_EQ(lseek(fileno(file), 0, SEEK_END), 4);
}

TEST(Foreign, TheCompletionChannelIsClosed) {
  ibv_comp_channel* channel = ibv_create_comp_channel(fabric().context);
  ibv_cq* queue = ibv_create_cq(fabric().context, 4, nullptr, channel, 0);
  ASSERT_EQ(close(channel->fd), 0);
  ibv_cq* told = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_req_notify_cq(queue, 0), 0);
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &context), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  End a, b;
  Connect(a, b);
  ExpectExchange(a, b, "goes on");
}

// Requests may fail; the process must neither crash nor hang.
TEST(Foreign, EveryDescriptorIsClosed) {
  EXPECT_EQ(StatusOfChild([] {
              auto* a = new End;  // Not destroyed: the results of destroying are free.
              auto* b = new End;
              Connect(*a, *b);
              ExpectExchange(*a, *b, "before");
              ASSERT_EQ(close_range(3, ~0u, 0), 0);
              static_cast<void>(b->Receive(1));
              static_cast<void>(a->Send(2, "after"));
              ibv_wc completion;
              for (int i = 0; i < 100; ++i) {
                static_cast<void>(ibv_poll_cq(b->received, 1, &completion));
                static_cast<void>(ibv_poll_cq(a->sent, 1, &completion));
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
            }),
            0);
}

TEST(Foreign, ExitsWhileItsThreadsWait) {
  EXPECT_EQ(StatusOfChild([] {
              auto* a = new End;
              auto* b = new End;
              Connect(*a, *b);
              ibv_comp_channel* channel = ibv_create_comp_channel(fabric().context);
              std::thread([channel] {
                ibv_cq* told = nullptr;
                void* context = nullptr;
                ibv_get_cq_event(channel, &told, &context);
              }).detach();
              Bound listener;
              ASSERT_EQ(rdma_listen(listener.id, 1), 0);
              std::thread([events = listener.channel] {
                rdma_cm_event* event = nullptr;
                rdma_get_cm_event(events, &event);
              }).detach();
              std::thread([a, b] {
                for (;;) ExpectExchange(*a, *b, "busy");
              }).detach();
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
            }),
            0);
}

TEST(Foreign, ExitsInASignalHandler) {
  EXPECT_EQ(StatusOfChild([] {
              std::signal(SIGALRM, [](int) { std::exit(0); });
              End a, b;
              Connect(a, b);
              const itimerval once{{0, 0}, {0, 100000}};
              setitimer(ITIMER_REAL, &once, nullptr);
              for (;;) ExpectExchange(a, b, "busy");
            }),
            0);
}

std::atomic<int> ticks{0};

// Waits for the event of a receive while signals arrive. Returns 0 or errno.
int WaitThroughSignals(int flags) {
  struct sigaction action {};
  action.sa_handler = [](int) { ++ticks; };
  action.sa_flags = flags;
  sigaction(SIGALRM, &action, nullptr);
  // Of a program that reports its crashes.
  struct sigaction report {};
  report.sa_handler = [](int) { _exit(9); };
  sigaction(SIGFPE, &report, nullptr);
  ibv_comp_channel* channel = ibv_create_comp_channel(fabric().context);
  End a, b(channel);
  Connect(a, b);
  EXPECT_EQ(b.Receive(1), 0);
  EXPECT_EQ(ibv_req_notify_cq(b.received, 0), 0);
  std::thread sender([&a] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(a.Send(2, "late"), 0);
  });
  const itimerval often{{0, 10000}, {0, 10000}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  ibv_cq* told = nullptr;
  void* context = nullptr;
  const int error = ibv_get_cq_event(channel, &told, &context) == 0 ? 0 : errno;
  setitimer(ITIMER_REAL, &never, nullptr);
  sender.join();
  if (error == 0) ibv_ack_cq_events(told, 1);
  return error;
}

TEST(Foreign, AWaitGoesOnAfterSignalsThatRestartCalls) {
  EXPECT_EQ(WaitThroughSignals(SA_RESTART), 0);
  EXPECT_GT(ticks.load(), 1);
}

TEST(Foreign, AWaitEndsWithOtherSignals) {
  EXPECT_EQ(WaitThroughSignals(0), EINTR);
}

// One page that can be unmapped while it is registered. Where it is, nothing else is mapped.
struct Page {
  static constexpr std::size_t kSize = 4096;
  // Where nothing else is, and where the sanitizers let a program have memory.
  static void* Place() {
    static std::uintptr_t next = 0x7e9000000000;
    return reinterpret_cast<void*>(next += 1 << 20);
  }
  // Of its own memory, or of a file.
  explicit Page(int file = -1)
      : memory(static_cast<char*>(
            mmap(Place(), kSize, PROT_READ | PROT_WRITE,
                 MAP_FIXED_NOREPLACE | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), file, 0))) {}
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  char* memory;
  ibv_mr* region = ibv_reg_mr(
      fabric().domain, memory, kSize,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  ~Page() { EXPECT_EQ(ibv_dereg_mr(region), 0); }
  void Unmap() const { ASSERT_EQ(munmap(memory, kSize), 0); }
  ibv_sge Piece(std::uint32_t length) const {
    return {reinterpret_cast<std::uintptr_t>(memory), length, region->lkey};
  }
};

int Post(End& end, ibv_wr_opcode opcode, ibv_sge piece, const Page* remote) {
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = 9;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  if (remote != nullptr && opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic = {reinterpret_cast<std::uintptr_t>(remote->memory), 1, 0, remote->region->rkey};
  } else if (remote != nullptr) {
    request.wr.rdma = {reinterpret_cast<std::uintptr_t>(remote->memory), remote->region->rkey};
  }
  return ibv_post_send(end.queue_pair, &request, &bad);
}

// A connection on which one request is posted, of which one side's memory is gone.
struct Doomed {
  Doomed(ibv_wr_opcode opcode, bool local_is_gone, std::uint32_t length) {
    Connect(a, b);
    (local_is_gone ? local : remote).Unmap();
    EXPECT_EQ(Post(a, opcode, local.Piece(length), &remote), 0);
  }
  End a, b;
  Page local, remote;
};

TEST(Foreign, MemoryOfAnRdmaRequestIsUnmappedBeforeItIsDeregistered) {
  End a, b;
  Connect(a, b);
  for (const bool local : {true, false}) {
    // Together, because the loss of a peer shows after the time of the retries.
    Doomed write(IBV_WR_RDMA_WRITE, local, 8), page(IBV_WR_RDMA_WRITE, local, Page::kSize),
        read(IBV_WR_RDMA_READ, local, 8), atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, local, 8);
    for (Doomed* one : {&write, &page, &read, &atomic}) {
      const auto failed = Next(one->a.sent);
      ASSERT_TRUE(failed) << local;
      EXPECT_NE(failed->status, IBV_WC_SUCCESS) << local << ' ' << failed->opcode;
    }
    ExpectExchange(a, b, "another connection");
  }
}

int MakeFile() {
  const int file = memfd_create("program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(file, Page::kSize), 0);
  return file;
}

// As with a device, which has pinned the pages: the peer has mapped them.
TEST(Foreign, SharedMemoryThatIsUnmappedIsStillThatOfItsFile) {
  const int file = MakeFile();
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
  End a, b;
  Connect(a, b);
  const Page local, remote(file);
  std::memcpy(remote.memory, "before", 6);
  ASSERT_EQ(Post(a, IBV_WR_RDMA_READ, local.Piece(6), &remote), 0);
  EXPECT_EQ(StatusOf(a.sent, 9), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(local.memory, "before", 6), 0);
  remote.Unmap();
  std::memcpy(local.memory, "after!", 6);
  ASSERT_EQ(Post(a, IBV_WR_RDMA_WRITE, local.Piece(6), &remote), 0);
  EXPECT_EQ(StatusOf(a.sent, 9), IBV_WC_SUCCESS);
  char found[6] = "";
  EXPECT_EQ(pread(file, found, sizeof found, 0), 6);
  EXPECT_EQ(std::memcmp(found, "after!", 6), 0);
  close(file);
}

TEST(Foreign, AFileBecomesShorterThanItsRegisteredMemory) {
  const int file = MakeFile();
  End a, b;
  Connect(a, b);
  const Page local, remote(file);
  ASSERT_EQ(Post(a, IBV_WR_RDMA_READ, local.Piece(6), &remote), 0);
  EXPECT_EQ(StatusOf(a.sent, 9), IBV_WC_SUCCESS);
  ASSERT_EQ(ftruncate(file, 0), 0);
  ASSERT_EQ(Post(a, IBV_WR_RDMA_WRITE, local.Piece(6), &remote), 0);
  const auto failed = Next(a.sent);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->status, IBV_WC_SUCCESS);
  close(file);
}

TEST(Foreign, MemoryOfASendIsUnmappedBeforeItIsDeregistered) {
  End a, b;
  Connect(a, b);
  Page page;
  page.Unmap();
  ASSERT_EQ(b.Receive(1), 0);
  ASSERT_EQ(Post(a, IBV_WR_SEND, page.Piece(64), nullptr), 0);
  EXPECT_EQ(StatusOf(a.sent, 9), IBV_WC_LOC_PROT_ERR);
  // Bytes that were not there do not arrive.
  const auto received = Next(b.received, std::chrono::milliseconds(200));
  EXPECT_TRUE(!received || received->status != IBV_WC_SUCCESS);
}

TEST(Foreign, MemoryOfAReceiveIsUnmappedBeforeItIsDeregistered) {
  End a, b;
  Connect(a, b);
  Page page;
  page.Unmap();
  ibv_sge piece = page.Piece(64);
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = 5;
  request.sg_list = &piece;
  request.num_sge = 1;
  ASSERT_EQ(ibv_post_recv(b.queue_pair, &request, &bad), 0);
  ASSERT_EQ(a.Send(2, "lost"), 0);
  EXPECT_EQ(StatusOf(b.received, 5), IBV_WC_LOC_PROT_ERR);
}

TEST(Foreign, AFaultOfTheProgramEndsIt) {
  const int status = StatusOfChild([] {
    Page page;
    page.Unmap();
    page.memory[0] = 1;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

// The handler of a program sees its faults, whether it was installed before the first region or after it.
TEST(Foreign, AFaultOfTheProgramGoesToItsHandler) {
  for (const bool early : {true, false}) {
    const int status = StatusOfChild([early] {
      const auto install = [] { std::signal(SIGSEGV, [](int) { _exit(7); }); };
      if (early) install();
      Page page;
      if (!early) install();
      page.Unmap();
      page.memory[0] = 1;
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << early << ' ' << status;
  }
}

// UCX does, because rdma_cm needs some number until UCX has connected its own queue pairs.
TEST(Foreign, ConnectsWithTheNumberOfAUdQueuePair) {
  End queues;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queues.sent;
  wanted.cap = {1, 1, 1, 1, 0};
  wanted.qp_type = IBV_QPT_UD;
  ibv_qp* datagrams = ibv_create_qp(fabric().domain, &wanted);
  ASSERT_NE(datagrams, nullptr);
  Bound server;
  ASSERT_EQ(rdma_listen(server.id, 1), 0);
  AskForConnection(ntohs(rdma_get_src_port(server.id)), datagrams->qp_num);
  AwaitEvent(server.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(ibv_destroy_qp(datagrams), 0);
}

// foreign_test.sh runs this one where there is no broker.
TEST(WithoutBroker, ThereIsNoDevice) {
  errno = 0;
  EXPECT_EQ(ibv_get_device_list(nullptr), nullptr);
  EXPECT_EQ(errno, ENODEV);
  // Opens the device of the connection manager, and resolves nothing.
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  sockaddr_in address = LoopbackAddress();
  if (channel != nullptr && rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0) {
    EXPECT_NE(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0);
    EXPECT_EQ(errno, ENODEV);
  }
}

}  // namespace
}  // namespace nd::verbs_programs
