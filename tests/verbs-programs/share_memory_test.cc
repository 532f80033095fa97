// SPDX-License-Identifier: Apache-2.0
// Programs that are started by 'ndctl run', without and with --share-memory: buffers that they allocate are
// shared with the peer from the allocation on, and are as ordinary memory for the program. foreign_test.sh
// runs each case as a process of its own.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/verbs-programs/number_end.h"

namespace nd::verbs_programs {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// What a program allocates and registers.
struct Allocated {
  explicit Allocated(std::size_t bytes, int access = kAll) : size(bytes) {
    void* memory = nullptr;
    (void)fabric();  // The device is open.
    EXPECT_EQ(posix_memalign(&memory, kPage, size), 0);
    data = static_cast<char*>(memory);
    std::memset(data, 0, size);
    region = ibv_reg_mr(fabric().domain, data, size, access);
    EXPECT_NE(region, nullptr);
  }
  ~Allocated() {
    EXPECT_TRUE(region == nullptr || ibv_dereg_mr(region) == 0);
    std::free(data);
  }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
  std::size_t size;
  char* data = nullptr;
  ibv_mr* region = nullptr;
};

ibv_wc_status Do(End& end, ibv_wr_opcode opcode, const Allocated& local, std::size_t length,
                 const Allocated& remote, std::size_t offset = 0) {
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(local.data), static_cast<std::uint32_t>(length),
                local.region->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = 3;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  const auto address = reinterpret_cast<std::uintptr_t>(remote.data) + offset;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = address;
    request.wr.atomic.rkey = remote.region->rkey;
    request.wr.atomic.compare_add = 1;
  } else {
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = remote.region->rkey;
  }
  EXPECT_EQ(ibv_post_send(end.queue_pair, &request, &bad), 0);
  return StatusOf(end.sent, 3);
}

// How often this process has mapped the file behind `memory`: twice when the peer, which is in this process
// too, has it. 0: it is no file.
int Mappings(const char* memory) {
  std::ifstream maps("/proc/self/maps");
  std::vector<std::string> files;
  std::string found;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:ndbroker-program") == line.npos) continue;
    std::size_t dash = 0;
    const std::uintptr_t begin = std::stoull(line, &dash, 16),
                         end = std::stoull(line.substr(dash + 1), nullptr, 16);
    files.push_back(line.substr(line.find(' ')));
    if (address >= begin && address < end) found = files.back();
  }
  return found.empty() ? 0 : static_cast<int>(std::ranges::count(files, found));
}

// Writes and reads `size` bytes, so that the peer has the memory.
void Exchange(End& end, const Allocated& local, const Allocated& remote, std::size_t size) {
  for (char round = 1; round <= 3; ++round) {
    std::memset(local.data, round, size);
    ASSERT_EQ(Do(end, IBV_WR_RDMA_WRITE, local, size, remote), IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(local.data, remote.data, size), 0);
    std::memset(remote.data, round + 10, size);
    ASSERT_EQ(Do(end, IBV_WR_RDMA_READ, local, size, remote), IBV_WC_SUCCESS);
    EXPECT_EQ(local.data[size - 1], round + 10);
  }
}

TEST(ShareMemory, ThePeerMapsMemoryThatBeginsWithAPage) {
  End a, b;
  Connect(a, b);
  const Allocated local(8 * kPage), remote(8 * kPage + 24);
  EXPECT_EQ(Mappings(remote.data), 1);
  Exchange(a, local, remote, 8 * kPage);
  EXPECT_EQ(Mappings(remote.data), 2);
  EXPECT_EQ(Do(a, IBV_WR_ATOMIC_FETCH_AND_ADD, local, 8, remote, 16), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.data[16], 14);
  EXPECT_EQ(Do(a, IBV_WR_RDMA_WRITE, local, 8 * kPage, remote, 64), IBV_WC_REM_ACCESS_ERR)
      << "the block is longer than the region";
}

TEST(ShareMemory, BuffersOfMallocAreSharedWithTheOptionOnly) {
  (void)fabric();
  const int shared = std::getenv("NDBROKER_VERBS_SHARE_MEMORY") != nullptr ? 1 : 0;
  constexpr std::size_t kLeast = 64 << 10, kMost = 4 << 20;
  for (const std::size_t size : {kLeast, kLeast + 1, kMost}) {
    auto* const memory = static_cast<char*>(std::malloc(size));
    EXPECT_EQ(Mappings(memory), shared) << size;
    std::memset(memory, 1, size);
    std::free(memory);
    auto* const zeros = static_cast<char*>(std::calloc(size / 8 + 1, 8));
    EXPECT_EQ(Mappings(zeros), size == kMost ? 0 : shared) << size;
    EXPECT_TRUE(std::all_of(zeros, zeros + size, [](char byte) { return byte == 0; }));
    std::free(zeros);
  }
  volatile std::size_t too_many = SIZE_MAX / 4;
  EXPECT_EQ(std::calloc(too_many, 8), nullptr);
}

TEST(ShareMemory, BuffersOfRsocketsAreShared) {
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0), client = rsocket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(rbind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(rlisten(listener, 1), 0);
  ASSERT_EQ(rgetsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  std::thread connects(
      [&] { EXPECT_EQ(rconnect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0); });
  const int server = raccept(listener, nullptr, nullptr);
  connects.join();
  ASSERT_GE(server, 0);
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:ndbroker-program") != line.npos) ++found;
  }
  EXPECT_GE(found, 4) << "a buffer for each direction at each end";
  for (const int socket : {client, server, listener}) rclose(socket);
}

TEST(ShareMemory, OtherMemoryIsOrdinary) {
  (void)fabric();
  for (const std::size_t size : {64 * 1024 - 1, 4 * 1024 * 1024 + 1}) {
    void* const memory = std::malloc(size);
    EXPECT_EQ(Mappings(static_cast<char*>(memory)), 0);
    std::free(memory);
  }
  void* aligned = nullptr;
  ASSERT_EQ(posix_memalign(&aligned, 64, 1 << 20), 0);
  EXPECT_EQ(Mappings(static_cast<char*>(aligned)), 0);
  std::free(aligned);
}

// The device is not open yet.
TEST(ShareMemory, MemoryOfBeforeIsOrdinary) {
  void* memory = nullptr;
  ASSERT_EQ(posix_memalign(&memory, kPage, kPage), 0);
  EXPECT_EQ(Mappings(static_cast<char*>(memory)), 0);
  (void)fabric();
  std::free(memory);
}

TEST(ShareMemory, SendsOfSharedMemoryArrive) {
  End a, b;
  Connect(a, b);
  constexpr std::size_t kSize = 300'000;
  const Allocated from(kSize, IBV_ACCESS_LOCAL_WRITE), to(kSize, IBV_ACCESS_LOCAL_WRITE);
  ibv_sge in{reinterpret_cast<std::uintptr_t>(to.data), kSize, to.region->lkey};
  ibv_recv_wr receive{}, *bad = nullptr;
  receive.wr_id = 4;
  receive.sg_list = &in;
  receive.num_sge = 1;
  // The first ones go through the ring, until both ends know that they may reach each other.
  for (std::size_t round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < kSize; ++i) from.data[i] = static_cast<char>(i * 7 + (i >> 9) + round);
    ASSERT_EQ(ibv_post_recv(b.queue_pair, &receive, &bad), 0);
    EXPECT_EQ(Do(a, IBV_WR_SEND, from, kSize, to), IBV_WC_SUCCESS);
    EXPECT_EQ(StatusOf(b.received, 4), IBV_WC_SUCCESS);
    ASSERT_EQ(std::memcmp(from.data, to.data, kSize), 0) << round;
  }
  EXPECT_EQ(Mappings(from.data), 2);
}

// Neighbours in memory that is registered again and again belong to other threads, and the peer adds to one.
TEST(ShareMemory, NoWriteIsLostWhileMemoryIsRegisteredAndDeregistered) {
  End a, b;
  Connect(a, b);
  Allocated memory(4 * kPage);
  const Allocated local(kPage);
  std::atomic<bool> stop{false};
  std::array<std::uint64_t, 2> counts{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    threads.emplace_back([&, i] {
      auto* const word = reinterpret_cast<volatile std::uint64_t*>(memory.data + 64 * (i + 1) + kPage * i);
      const int null = open("/dev/zero", O_RDONLY);
      while (!stop) {
        *word = *word + 1;
        ++counts[i];
        // The kernel writes, too.
        EXPECT_TRUE(counts[i] % 64 != 0 || read(null, memory.data + 2 * kPage + i * 128, 128) == 128);
      }
      close(null);
    });
  }
  std::uint64_t added = 0;
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(Do(a, IBV_WR_ATOMIC_FETCH_AND_ADD, local, 8, memory), IBV_WC_SUCCESS);
    ++added;
    ASSERT_EQ(ibv_dereg_mr(memory.region), 0);
    memory.region = ibv_reg_mr(fabric().domain, memory.data, memory.size, kAll);
    ASSERT_NE(memory.region, nullptr);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(memory.data), added);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(memory.data + 64 * (i + 1) + kPage * i), counts[i]);
  }
}

// Neither the parent nor the peer writes to the memory of a child, nor the child to theirs.
TEST(ShareMemory, AForkedChildHasACopy) {
  End a, b;
  Connect(a, b);
  const Allocated local(2 * kPage), remote(2 * kPage);
  Exchange(a, local, remote, kPage);
  std::strcpy(remote.data, "before");
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    char ready = 0;
    const bool waited = read(go[0], &ready, 1) == 1;
    const bool same = std::strcmp(remote.data, "before") == 0;
    std::strcpy(remote.data, "child!");
    std::free(remote.data);
    // Memory of its own, as any program allocates it.
    void* memory = nullptr;
    _exit(waited && same && posix_memalign(&memory, kPage, kPage) == 0 ? 0 : 1);
  }
  std::strcpy(local.data, "after");
  EXPECT_EQ(Do(a, IBV_WR_RDMA_WRITE, local, 6, remote), IBV_WC_SUCCESS);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_STREQ(remote.data, "after");
  Exchange(a, local, remote, kPage);
  EXPECT_EQ(std::system("true"), 0);
}

TEST(ShareMemory, AChildHasACopyAlsoOfMemoryThatTheProgramMarksForChildren) {
  (void)fabric();
  auto* const memory = static_cast<char*>(valloc(kPage));
  ASSERT_EQ(Mappings(memory), 1);
  std::strcpy(memory, "parent");
  ASSERT_EQ(madvise(memory, kPage, MADV_DONTFORK), 0);
  ASSERT_EQ(madvise(memory, kPage, MADV_DOFORK), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool same = std::strcmp(memory, "parent") == 0;
    std::strcpy(memory, "child");
    _exit(same ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_STREQ(memory, "parent");
  std::free(memory);
}

// The stack of a thread or a coroutine may be aligned memory.
constexpr std::size_t kStack = std::size_t{2} << 20;
void ForkTwice() {
  volatile int here = 5;
  const pid_t child = fork();
  if (child == 0) {
    here = here + 2;
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(here + 1);
    int status = -1;
    waitpid(grandchild, &status, 0);
    _exit(here == 7 && WIFEXITED(status) && WEXITSTATUS(status) == 8 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(here, 5) << "the child writes to its own stack";
}

// A library has a lock that a child gets unlocked, and frees memory while it holds it.
std::mutex lock_of_program;

TEST(ShareMemory, ForkHandlersTakeALockUnderWhichMemoryIsFreed) {
  ASSERT_EQ(pthread_atfork([] { lock_of_program.lock(); }, [] { lock_of_program.unlock(); },
                           [] { lock_of_program.unlock(); }),
            0);
  (void)fabric();
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) {
      void* memory = nullptr;
      const std::lock_guard lock(lock_of_program);
      if (posix_memalign(&memory, kPage, kPage) == 0) std::free(memory);
    }
  });
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }
  ends = true;
  other.join();
}

TEST(ShareMemory, ACoroutineOnAlignedMemoryForks) {
  (void)fabric();
  auto* const stack = static_cast<char*>(aligned_alloc(kPage, kStack));
  ucontext_t caller{}, coroutine{};
  ASSERT_EQ(getcontext(&coroutine), 0);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = kStack;
  coroutine.uc_link = &caller;
  makecontext(&coroutine, ForkTwice, 0);
  ASSERT_EQ(swapcontext(&caller, &coroutine), 0);
  EXPECT_EQ(Mappings(stack), 1);
  std::free(stack);
}

TEST(ShareMemory, AThreadOnAlignedMemoryForks) {
  (void)fabric();
  auto* const stack = static_cast<char*>(aligned_alloc(kPage, kStack));
  ASSERT_EQ(Mappings(stack), 1);
  std::strcpy(stack + kPage, "kept");
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstack(&attributes, stack, kStack), 0);
  EXPECT_EQ(Mappings(stack), 0);
  EXPECT_STREQ(stack + kPage, "kept");
  const auto run = [](void*) -> void* {
    ForkTwice();
    return nullptr;
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, run, nullptr), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  std::free(stack);
}

TEST(ShareMemory, AProgramFreesItsMemoryBeforeItDeregistersIt) {
  End a, b;
  Connect(a, b);
  const Allocated local(2 * kPage);
  Allocated remote(2 * kPage);
  Exchange(a, local, remote, kPage);
  // Not by its name, because the compiler knows that this is wrong.
  const auto release = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "free"));
  release(remote.data);
  // As with a device, which has pinned the pages.
  EXPECT_EQ(Do(a, IBV_WR_RDMA_WRITE, local, 8, remote), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(remote.region), 0);
  remote.region = nullptr;
  remote.data = nullptr;
  const Allocated another(2 * kPage);
  Exchange(a, local, another, kPage);
}

// Ordinary memory of this side, which the program unmaps before it deregisters it, and shared memory of the
// peer.
struct Gone {
  explicit Gone(std::size_t bytes) : size(bytes) { EXPECT_NE(region, nullptr); }
  ~Gone() { EXPECT_EQ(ibv_dereg_mr(region), 0); }
  void Unmap() const { EXPECT_EQ(munmap(data, size), 0); }
  ibv_wc_status Do(End& end, ibv_wr_opcode opcode, const Allocated& remote) const {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(size), region->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.wr_id = 4;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.wr.rdma = {reinterpret_cast<std::uintptr_t>(remote.data), remote.region->rkey};
    EXPECT_EQ(ibv_post_send(end.queue_pair, &request, &bad), 0);
    return StatusOf(end.sent, 4);
  }
  // One that no other thread maps anything at.
  static void* Place() {
    static std::uintptr_t next = 0x7e8000000000;
    return reinterpret_cast<void*>(next += 16 << 20);
  }
  std::size_t size;
  char* data = static_cast<char*>(
      mmap(Place(), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  ibv_mr* region = ibv_reg_mr(fabric().domain, data, size, kAll);
};

TEST(ShareMemory, OwnMemoryIsUnmappedBeforeARequestForThatOfThePeer) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    End a, b;
    Connect(a, b);
    const Allocated local(kPage), remote(kPage);
    Exchange(a, local, remote, kPage);
    std::memset(remote.data, 9, kPage);
    const Gone gone(kPage);
    EXPECT_EQ(gone.Do(a, IBV_WR_RDMA_READ, remote), IBV_WC_SUCCESS);
    gone.Unmap();
    EXPECT_NE(gone.Do(a, opcode, remote), IBV_WC_SUCCESS) << opcode;
  }
}

TEST(ShareMemory, OwnMemoryIsUnmappedDuringReadsOfThatOfThePeer) {
  constexpr std::size_t kSize = std::size_t{1} << 20;
  End a, b;
  Connect(a, b);
  const Allocated local(kSize), remote(kSize);
  Exchange(a, local, remote, kSize);
  const Gone gone(kSize);
  std::atomic<bool> reads{false};
  std::thread other([&] {
    while (!reads) std::this_thread::yield();
    gone.Unmap();
  });
  ibv_wc_status status = IBV_WC_SUCCESS;
  for (int i = 0; i < 1000000 && status == IBV_WC_SUCCESS; ++i) {
    status = gone.Do(a, IBV_WR_RDMA_READ, remote);
    reads = i >= 10;
  }
  other.join();
  EXPECT_NE(status, IBV_WC_SUCCESS);
}

TEST(ShareMemory, TheFunctionsOfTheAllocatorAgree) {
  for (const char* name : {"__asan_init", "__tsan_init"}) {
    if (dlsym(RTLD_DEFAULT, name) != nullptr) GTEST_SKIP() << "operator new is that of the sanitizer";
  }
  (void)fabric();
  for (void* memory : {aligned_alloc(kPage, 3 * kPage), memalign(kPage, 3 * kPage), valloc(3 * kPage),
                       pvalloc(2 * kPage + 1), ::operator new(3 * kPage, std::align_val_t(kPage))}) {
    auto* data = static_cast<char*>(memory);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(Mappings(data), 1);
    EXPECT_EQ(malloc_usable_size(data), 3 * kPage);
    std::strcpy(data + 2 * kPage, "kept");
    data = static_cast<char*>(std::realloc(data, 2 * kPage + 8));
    EXPECT_STREQ(data + 2 * kPage, "kept");
    data = static_cast<char*>(reallocarray(data, 2000, kPage));
    ASSERT_NE(data, nullptr);
    EXPECT_STREQ(data + 2 * kPage, "kept");
    EXPECT_EQ(Mappings(data), 0) << "it has moved to ordinary memory";
    std::free(data);
  }
  void* memory = valloc(kPage);
  volatile std::size_t too_many = SIZE_MAX;
  EXPECT_EQ(reallocarray(memory, too_many, 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(std::realloc(memory, 0), nullptr);
  void* untouched = &memory;
  EXPECT_EQ(posix_memalign(&untouched, 3, kPage), EINVAL);
  EXPECT_EQ(untouched, &memory);
}

TEST(ShareMemory, MemoryThatIsNotNeededBecomesZero) {
  (void)fabric();
  auto* const memory = static_cast<char*>(valloc(4 * kPage));
  std::memset(memory, 1, 4 * kPage);
  EXPECT_EQ(madvise(memory + kPage, 2 * kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(memory[kPage - 1], 1);
  EXPECT_EQ(memory[kPage], 0);
  EXPECT_EQ(memory[3 * kPage - 1], 0);
  EXPECT_EQ(memory[3 * kPage], 1);
  EXPECT_EQ(madvise(memory, 4 * kPage, MADV_FREE), 0);
  std::free(memory);
}

// More blocks than there can be: the others are ordinary memory, and all of it works.
TEST(ShareMemory, ManyAllocations) {
  End a, b;
  Connect(a, b);
  const Allocated local(kPage);
  std::vector<std::unique_ptr<Allocated>> all;
  for (int i = 0; i < 400; ++i) all.push_back(std::make_unique<Allocated>(kPage));
  EXPECT_EQ(Mappings(all.front()->data), 1);
  EXPECT_EQ(Mappings(all.back()->data), 0);
  for (const auto& memory : all) Exchange(a, local, *memory, 64);
}

bool IsMineInAChild(const char* memory) {
  const pid_t child = fork();
  if (child == 0) _exit(std::strcmp(memory, "mine") == 0 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ShareMemory, AProgramThatClosesEveryDescriptorKeepsItsMemory) {
  const pid_t program = fork();
  if (program == 0) {
    (void)fabric();
    auto* const memory = static_cast<char*>(valloc(2 * kPage));
    const bool shared = Mappings(memory) == 1;
    std::strcpy(memory, "mine");
    for (int fd = 3; fd < 2000; ++fd) close(fd);
    const bool kept = IsMineInAChild(memory) && std::strcmp(memory, "mine") == 0;
    std::free(memory);
    _exit(shared && kept ? 0 : 1);
  }
  int status = -1;
  waitpid(program, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace nd::verbs_programs
