// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/share_memory/blocks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/memfd.h"

namespace nd::share_memory {
namespace {

constexpr std::size_t kPage = 4096;

char* Take(std::size_t size, std::size_t alignment = kPage) {
  Begin(SIZE_MAX);
  return static_cast<char*>(Allocate(alignment, size));
}

struct Taken {
  explicit Taken(std::size_t size, std::size_t alignment = kPage) : bytes(Take(size, alignment)) {}
  ~Taken() { Free(bytes); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  char* bytes;
};

// A child that is made by fork(); true when `body` is.
template <typename Body>
bool TrueInChild(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

char* freed_by_handler = nullptr;

// A fork handler of the program. One that is registered before the first Begin() runs while the lock is held.
void RegisterHandler() {
  const auto handler = [] {
    EXPECT_EQ(Allocate(kPage, kPage), nullptr);
    if (freed_by_handler != nullptr) Free(freed_by_handler);
  };
  static const int registered = pthread_atfork(handler, nullptr, nullptr);
  ASSERT_EQ(registered, 0);
}

// First of the cases: the process shares nothing before.
TEST(BlocksTest, BeforeBeginThereAreNone) {
  RegisterHandler();
  EXPECT_EQ(Allocate(kPage, kPage), nullptr);
  int ordinary = 0;
  EXPECT_FALSE(Free(&ordinary));
}

TEST(BlocksTest, AnotherMappingOfABlockSeesWhatIsWritten) {
  const Taken block(3 * kPage + 1);
  ASSERT_NE(block.bytes, nullptr);
  EXPECT_EQ(SizeOf(block.bytes), 4 * kPage);
  const Around around = FindAround(block.bytes + 100, 3 * kPage);
  ASSERT_TRUE(around.fd);
  EXPECT_EQ(reinterpret_cast<char*>(around.begin), block.bytes);
  EXPECT_EQ(around.size, 4 * kPage);
  EXPECT_TRUE(CheckSealedMemfd(around.fd.get(), 4 * kPage).ok());
  const Mapping other = Mapping::Map(around.fd.get(), around.size, true).value();
  std::strcpy(block.bytes + kPage, "written");
  EXPECT_STREQ(reinterpret_cast<char*>(other.data()) + kPage, "written");
}

TEST(BlocksTest, ARangeThatLeavesItsBlockIsInNone) {
  const Taken block(2 * kPage);
  EXPECT_TRUE(FindAround(block.bytes, 2 * kPage).fd);
  EXPECT_FALSE(FindAround(block.bytes, 2 * kPage + 1).fd);
  EXPECT_FALSE(FindAround(block.bytes + kPage, kPage + 1).fd);
  EXPECT_FALSE(FindAround(block.bytes - 1, 2).fd);
  EXPECT_FALSE(FindAround(block.bytes, SIZE_MAX).fd);
  EXPECT_EQ(SizeOf(block.bytes + kPage), 0u);
  EXPECT_FALSE(Free(block.bytes + kPage));
}

TEST(BlocksTest, OnlyWholePagesAreBlocks) {
  EXPECT_EQ(Take(kPage - 1), nullptr);
  EXPECT_EQ(Take(kPage, 64), nullptr);
  EXPECT_EQ(Take(kPage, 3 * kPage), nullptr);
  EXPECT_EQ(Take(SIZE_MAX), nullptr);
  EXPECT_EQ(Take(SIZE_MAX - 2 * kPage), nullptr);
  EXPECT_EQ(Take(kPage, SIZE_MAX / 2 + 1), nullptr);
}

TEST(BlocksTest, AnAlignmentOfHugePagesIsKept) {
  constexpr std::size_t kHuge = 16 << 20;
  const Taken first(kPage, kHuge), second(kPage, kHuge), third(kPage, kHuge);
  for (char* bytes : {first.bytes, second.bytes, third.bytes}) {
    ASSERT_NE(bytes, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % kHuge, 0u);
    bytes[kPage - 1] = 1;
  }
}

// A peer that has mapped the block does not keep its pages, and the next block needs no new mapping of it.
TEST(BlocksTest, FreedPagesGoBackAndTheMemfdStays) {
  char* bytes = Take(64 * kPage);
  std::memset(bytes, 1, 64 * kPage);
  const Around around = FindAround(bytes, 1);
  struct stat status {};
  ASSERT_TRUE(fstat(around.fd.get(), &status) == 0 && status.st_blocks > 0);
  EXPECT_TRUE(Free(bytes));
  EXPECT_FALSE(Free(bytes)) << "it is freed";
  EXPECT_FALSE(FindAround(bytes, 1).fd);
  ASSERT_EQ(fstat(around.fd.get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
  const Taken again(64 * kPage);
  EXPECT_EQ(again.bytes, bytes);
  EXPECT_EQ(again.bytes[0], 0);
}

TEST(BlocksTest, TooManyBlocksAreRefusedAndFreedOnesMakeRoom) {
  std::set<char*> all;
  while (char* bytes = Take(kPage)) ASSERT_TRUE(all.insert(bytes).second);
  EXPECT_EQ(all.size(), kMostBlocks);
  for (char* bytes : all) EXPECT_TRUE(Free(bytes));
  std::vector<char*> others;
  for (std::size_t i = 0; i < kMostBlocks; ++i) others.push_back(Take(2 * kPage));
  for (char* bytes : others) {
    ASSERT_NE(bytes, nullptr);
    EXPECT_TRUE(Free(bytes));
  }
}

TEST(BlocksTest, MoreBytesThanTheMostAreRefused) {
  Begin(4 * kPage);
  void* const first = Allocate(kPage, 4 * kPage);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(Allocate(kPage, kPage), nullptr);
  EXPECT_TRUE(Free(first));
  void* const again = Allocate(kPage, 3 * kPage);
  EXPECT_NE(again, nullptr);
  EXPECT_EQ(Allocate(kPage, 2 * kPage), nullptr);
  EXPECT_TRUE(Free(again));
}

// The kernel ends a program whose file becomes longer than that limit.
TEST(BlocksTest, ABlockKeepsToTheLimitOfFileSizes) {
  EXPECT_TRUE(TrueInChild([] {
    const rlimit limit{2 * kPage, 2 * kPage};
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 && Take(3 * kPage) == nullptr && Take(2 * kPage) != nullptr;
  }));
}

TEST(BlocksTest, AChildHasACopyAndItsParentTheBlock) {
  const Taken block(8 * kPage);
  std::strcpy(block.bytes + 5 * kPage, "before");
  int to_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  const pid_t child = fork();
  if (child == 0) {
    char go = 0;
    const bool waited = read(to_child[0], &go, 1) == 1;
    const bool same = std::strcmp(block.bytes + 5 * kPage, "before") == 0 && block.bytes[0] == 0;
    std::strcpy(block.bytes, "child");
    const bool alone = Allocate(kPage, kPage) == nullptr && !FindAround(block.bytes, 1).fd;
    const bool nested = TrueInChild([&] { return std::strcmp(block.bytes, "child") == 0; });
    _exit(waited && same && alone && nested && SizeOf(block.bytes) == 8 * kPage && Free(block.bytes) &&
                  SizeOf(block.bytes) == 0
              ? 0
              : 1);
  }
  std::strcpy(block.bytes + 5 * kPage, "after");
  ASSERT_EQ(write(to_child[1], "x", 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(block.bytes[0], 0) << "the child wrote to its copy";
  EXPECT_STREQ(block.bytes + 5 * kPage, "after");
  EXPECT_TRUE(FindAround(block.bytes, 1).fd);
  close(to_child[0]);
  close(to_child[1]);
}

TEST(BlocksTest, ForkHandlersOfTheProgramAllocateAndFree) {
  RegisterHandler();
  const pid_t program = fork();
  if (program == 0) {
    alarm(10);
    Begin(SIZE_MAX);
    freed_by_handler = Take(kPage);
    const Taken kept(kPage);
    kept.bytes[0] = 5;
    const bool same = TrueInChild([&] { return kept.bytes[0] == 5 && SizeOf(freed_by_handler) == 0; });
    _exit(same && SizeOf(freed_by_handler) == 0 && Take(kPage) != nullptr ? 0 : 1);
  }
  int status = -1;
  waitpid(program, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(BlocksTest, AProgramThatClosedTheDescriptorKeepsItsMemory) {
  char* bytes = Take(2 * kPage);
  std::strcpy(bytes, "mine");
  int number = -1;
  {
    const Around around = FindAround(bytes, 1);
    struct stat wanted {
    }, found{};
    ASSERT_EQ(fstat(around.fd.get(), &wanted), 0);
    for (int fd = 3; fd < 2048 && number < 0; ++fd) {
      if (fd != around.fd.get() && fstat(fd, &found) == 0 && found.st_ino == wanted.st_ino) number = fd;
    }
  }
  ASSERT_GE(number, 0);
  close(number);
  ASSERT_EQ(dup2(STDERR_FILENO, number), number) << "another file has the number";
  EXPECT_FALSE(FindAround(bytes, 1).fd);
  EXPECT_TRUE(TrueInChild([&] { return std::strcmp(bytes, "mine") == 0; }));
  EXPECT_TRUE(Free(bytes));
  EXPECT_EQ(fcntl(number, F_GETFD) & FD_CLOEXEC, 0) << "the other file is still open";
  close(number);
}

TEST(BlocksTest, ThreadsAllocateAndForkAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 200; ++round) {
        const Taken block(kPage * static_cast<std::size_t>(1 + (i + round) % 3));
        if (block.bytes == nullptr) continue;
        EXPECT_EQ(block.bytes[0], 0);
        block.bytes[0] = static_cast<char>(i + 1);
        std::this_thread::yield();
        EXPECT_EQ(block.bytes[0], i + 1);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const Taken block(kPage);
    block.bytes[9] = 9;
    EXPECT_TRUE(TrueInChild([&] { return block.bytes[9] == 9; }));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace nd::share_memory
