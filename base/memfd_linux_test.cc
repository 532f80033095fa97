// SPDX-License-Identifier: Apache-2.0
// Seals, as the kernel applies them.
#include "base/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace nd {
namespace {

TEST(MemfdSeals, SealedSegmentCannotChangeItsSizeOrSeals) {
  const auto fd = CreateSealedMemfd("test", 5000);
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(ftruncate(fd->get(), 100), 0);
  EXPECT_NE(ftruncate(fd->get(), 100000), 0);
  EXPECT_NE(fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(MemfdSeals, OtherDescriptorsAreRefused) {
  const UniqueFd plain(memfd_create("unsealed", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(plain.get(), 4096), 0);
  EXPECT_EQ(CheckSealedMemfd(plain.get(), 1).code(), StatusCode::kAccessViolation);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const UniqueFd reader(pipe_fds[0]), writer(pipe_fds[1]);
  EXPECT_EQ(CheckSealedMemfd(reader.get(), 1).code(), StatusCode::kAccessViolation);
}

// The size can be sealed, and the pages can still be missing.
TEST(MemfdSeals, HugePagesAreRefused) {
  const UniqueFd huge(memfd_create("huge", MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!huge) GTEST_SKIP() << "no huge pages in this kernel";
  ASSERT_EQ(ftruncate(huge.get(), 1 << 30), 0);
  ASSERT_EQ(fcntl(huge.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
  EXPECT_EQ(CheckSealedMemfd(huge.get(), 1).code(), StatusCode::kAccessViolation);
}

TEST(MemfdSeals, ReadOnlySegmentKeepsItsPages) {
  Mapping mine;
  const auto fd = CreateReadOnlyMemfd("page", 4096, &mine);
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
}

// tests/vm/guest/overcommit.sh runs it.
TEST(PagesThatCountWhenUsed, AreTakenAtOnceOrRefused) {
  if (!PagesCountWhenUsed()) GTEST_SKIP() << "vm.overcommit_memory is not 2";
  std::vector<UniqueFd> taken;
  constexpr std::size_t kSize = std::size_t{32} << 20;
  for (auto fd = CreateSealedMemfd("test", kSize); taken.size() < 10'000;
       fd = CreateSealedMemfd("test", kSize)) {
    if (!fd.ok()) {
      EXPECT_EQ(fd.status().code(), StatusCode::kInsufficientResources);
      break;
    }
    struct stat info {};
    ASSERT_EQ(fstat(fd->get(), &info), 0);
    EXPECT_EQ(static_cast<std::size_t>(info.st_blocks) * 512, kSize);
    taken.push_back(std::move(fd).value());
  }
  EXPECT_GE(taken.size(), 1U);
  EXPECT_LT(taken.size(), 10'000U) << "nothing was refused";
}

// What the child maps at the free address is not that of the parent.
TEST(MappingInChild, EndOfAKeptMappingUnmapsNothing) {
  const auto fd = CreateSealedMemfd("test", 4096);
  ASSERT_TRUE(fd.ok());
  auto mapping = Mapping::Map(fd->get(), 4096, true);
  ASSERT_TRUE(mapping.ok());
  mapping->KeepFromChildren();
  const pid_t child = fork();
  if (child == 0) {
    void* const own = mmap(mapping->data(), 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (own != mapping->data()) _exit(2);
    { const Mapping ends(std::move(mapping).value()); }
    unsigned char resident = 0;
    _exit(mincore(own, 4096, &resident) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: unmapped; 2: the address was not free";
}

}  // namespace
}  // namespace nd
