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
#include <utility>
#include <vector>

#include "base/bytes_read.h"
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

// A fork handler that is registered before that of the blocks, and runs while their lock is held.
__attribute__((constructor(101))) void RegisterEarlyHandler() {
  const auto handler = [] {
    EXPECT_EQ(Allocate(kPage, kPage), nullptr);
    if (freed_by_handler != nullptr) Free(std::exchange(freed_by_handler, nullptr));
  };
  pthread_atfork(handler, nullptr, nullptr);
}

TEST(BlocksTest, BeforeBeginThereAreNone) {
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

// As below the stack of a coroutine.
TEST(BlocksTest, AProgramThatProtectsPagesForks) {
  const Taken block(4 * kPage);
  std::memset(block.bytes, 7, 4 * kPage);
  ASSERT_EQ(mprotect(block.bytes + kPage, kPage, PROT_NONE), 0);
  EXPECT_TRUE(FindAround(block.bytes, 4 * kPage).fd) << "it is still the block's memory";
  EXPECT_TRUE(TrueInChild([&] { return block.bytes[0] == 7 && block.bytes[3 * kPage] == 7; }));
}

// Other memory in the middle of a block, as a program that wants the same pages twice maps it.
struct Replaced {
  Replaced() : file(memfd_create("of the program", 0)) {
    EXPECT_EQ(ftruncate(file.get(), kPage), 0);
    std::memset(block.bytes, 7, 4 * kPage);
    EXPECT_EQ(mmap(middle, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0), middle);
    *middle = 8;
  }
  Taken block{4 * kPage};
  UniqueFd file;
  char* middle = block.bytes + kPage;
};

TEST(BlocksTest, AChildHasTheMemoryThatTheProgramMappedIntoABlock) {
  const Replaced replaced;
  EXPECT_TRUE(TrueInChild([&] {
    const bool same = replaced.block.bytes[0] == 7 && *replaced.middle == 8 && replaced.middle[kPage] == 7;
    *replaced.middle = 9;
    return same;
  }));
  EXPECT_EQ(*replaced.middle, 9) << "the program's memory is shared with its children";
}

TEST(BlocksTest, ThatMemoryIsNotSharedAsTheBlockIs) {
  const Replaced replaced;
  EXPECT_FALSE(FindAround(replaced.block.bytes, 4 * kPage).fd);
  EXPECT_FALSE(FindAround(replaced.middle, 1).fd);
  const Taken whole(kPage);
  const UniqueFd file(memfd_create("ndbroker-program", 0));
  ASSERT_EQ(ftruncate(file.get(), kPage), 0);
  ASSERT_EQ(mmap(whole.bytes, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0),
            whole.bytes);
  EXPECT_FALSE(FindAround(whole.bytes, kPage).fd);
}

TEST(BlocksTest, ABlockIsFoundWithoutTheListOfMappings) {
  if (BytesRead() == 0) GTEST_SKIP() << "this system does not count what a process reads";
  const Taken block(4 * kPage);
  const std::uint64_t before = BytesRead();
  EXPECT_TRUE(FindAround(block.bytes + kPage, kPage).fd);
  EXPECT_LT(BytesRead() - before, 1000U) << "the list has more";
}

TEST(BlocksTest, TheEndOfABlockDoesNotTouchThatMemory) {
  Replaced replaced;
  EXPECT_TRUE(Discard(replaced.block.bytes, kPage));
  EXPECT_TRUE(Discard(replaced.middle, kPage));
  EXPECT_EQ(replaced.block.bytes[0], 0);
  char* const bytes = std::exchange(replaced.block.bytes, nullptr);
  EXPECT_TRUE(Free(bytes));
  char first = 0;
  EXPECT_EQ(pread(replaced.file.get(), &first, 1, 0), 1);
  EXPECT_EQ(first, 8);
  const Taken next(4 * kPage);
  std::memset(next.bytes, 1, 4 * kPage);
  EXPECT_EQ(pread(replaced.file.get(), &first, 1, 0), 1);
  EXPECT_EQ(first, 8) << "the next block has memory of the former one";
}

// tests/vm/guest/overcommit.sh runs it.
TEST(BlocksTest, NoPageIsRefusedAfterTheAllocation) {
  if (!PagesCountWhenUsed()) GTEST_SKIP() << "vm.overcommit_memory is not 2";
  constexpr std::size_t kSize = std::size_t{32} << 20;
  std::vector<char*> all;
  while (char* bytes = Take(kSize)) all.push_back(bytes);
  ASSERT_GE(all.size(), 2U);
  ASSERT_LT(all.size(), kMostBlocks) << "nothing was refused";
  // Pages that are discarded stay those of the block.
  std::memset(all[0], 7, kSize);
  EXPECT_TRUE(Discard(all[0], kSize));
  EXPECT_EQ(all[0][kSize - 1], 0);
  EXPECT_EQ(Take(kSize), nullptr) << "the pages were given away";
  // Those of a freed one go back, and no later block counts on them.
  EXPECT_TRUE(Free(all.back()));
  all.pop_back();
  while (char* bytes = Take(kSize / 4)) all.push_back(bytes);
  EXPECT_EQ(Take(kSize), nullptr) << "a block without pages";
  for (char* bytes : all) std::memset(bytes, 1, SizeOf(bytes));
  for (char* bytes : all) EXPECT_TRUE(Free(bytes));
}

TEST(BlocksTest, ForkHandlersOfTheProgramAllocateAndFree) {
  char* const freed = Take(kPage);
  freed_by_handler = freed;
  const Taken kept(kPage);
  kept.bytes[0] = 5;
  EXPECT_TRUE(TrueInChild([&] { return kept.bytes[0] == 5 && SizeOf(freed) == 0; }));
  EXPECT_EQ(SizeOf(freed), 0);
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
  EXPECT_TRUE(Discard(bytes, kPage));
  EXPECT_EQ(bytes[0], 0);
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
