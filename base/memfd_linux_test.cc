// SPDX-License-Identifier: Apache-2.0
// Seals, as the kernel applies them.
#include "base/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

TEST(MemfdSeals, ReadOnlySegmentKeepsItsPages) {
  Mapping mine;
  const auto fd = CreateReadOnlyMemfd("page", 4096, &mine);
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
}

}  // namespace
}  // namespace nd
