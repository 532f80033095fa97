// SPDX-License-Identifier: Apache-2.0
// Which memory of a program is found to be a memfd.
#include "base/os/memfd_behind.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/bytes_read.h"
#include "base/memfd.h"

namespace nd::os {
namespace {

const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

std::optional<MemfdBehind> Behind(const Mapping& mapping) {
  return FindMemfdBehind(mapping.data(), mapping.size());
}

TEST(MemfdBehindTest, TheDescriptorIsOfTheSameMemory) {
  const UniqueFd fd = CreateSealedMemfd("test", 3 * kPage).value();
  const Mapping mapping = Mapping::Map(fd.get(), 3 * kPage, true).value();
  const auto found = Behind(mapping);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size, 3 * kPage);
  EXPECT_TRUE(found->writable);
  EXPECT_FALSE(found->sealed_against_writing);
  EXPECT_NE(found->fd.get(), fd.get());
  EXPECT_NE(fcntl(found->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(found->number, NumberOf(fd.get()));
  const Mapping again = Mapping::Map(found->fd.get(), found->size, true).value();
  again.data()[kPage] = std::byte{9};
  EXPECT_EQ(mapping.data()[kPage], std::byte{9});
}

TEST(MemfdBehindTest, PartsOfAMemfdAreNotFound) {
  const UniqueFd fd = CreateSealedMemfd("test", 3 * kPage).value();
  const Mapping mapping = Mapping::Map(fd.get(), 3 * kPage, true).value();
  EXPECT_FALSE(FindMemfdBehind(mapping.data(), 2 * kPage));
  EXPECT_FALSE(FindMemfdBehind(mapping.data() + kPage, 2 * kPage));
  EXPECT_FALSE(FindMemfdBehind(mapping.data() + 8, 3 * kPage - 8));
  EXPECT_FALSE(FindMemfdBehind(mapping.data(), 4 * kPage));
  const Mapping part = Mapping::Map(fd.get(), kPage, true).value();
  EXPECT_FALSE(FindMemfdBehind(part.data(), 3 * kPage));
}

TEST(MemfdBehindTest, AMemfdThatMayShrinkIsNotFound) {
  const UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(kPage)), 0);
  const Mapping mapping = Mapping::Map(fd.get(), kPage, true).value();
  EXPECT_FALSE(Behind(mapping));
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
  EXPECT_FALSE(Behind(mapping)) << "seals against writing may follow";
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL), 0);
  EXPECT_TRUE(Behind(mapping));
}

TEST(MemfdBehindTest, ReadOnlyDescriptorsAndSealsAreTold) {
  Mapping mine;
  const UniqueFd sealed = CreateReadOnlyMemfd("test", kPage, &mine).value();
  const auto found = Behind(mine);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->writable);
  EXPECT_TRUE(found->sealed_against_writing);

  UniqueFd fd = CreateSealedMemfd("test", kPage).value();
  const Mapping mapping = Mapping::Map(fd.get(), kPage, true).value();
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  const UniqueFd reader(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  fd.reset();
  const auto read_only = Behind(mapping);
  ASSERT_TRUE(read_only);
  EXPECT_FALSE(read_only->writable);
  EXPECT_FALSE(read_only->sealed_against_writing) << "its holder can open it again for writing";
}

TEST(MemfdBehindTest, OtherMemoryIsNotFound) {
  UniqueFd fd = CreateSealedMemfd("test", kPage).value();
  void* const own = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0);
  EXPECT_FALSE(FindMemfdBehind(own, kPage)) << "a private mapping";
  munmap(own, kPage);
  EXPECT_FALSE(FindMemfdBehind(own, kPage)) << "no mapping";
  const Mapping mapping = Mapping::Map(fd.get(), kPage, true).value();
  fd.reset();
  EXPECT_FALSE(Behind(mapping)) << "no descriptor is left";
  void* const anonymous = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(FindMemfdBehind(anonymous, kPage));
  munmap(anonymous, kPage);
}

TEST(MemfdBehindTest, OrdinaryMemoryIsToldWithoutTheListOfMappings) {
  if (BytesRead() == 0) GTEST_SKIP() << "this system does not count what a process reads";
  void* const used = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<char*>(used) = 1;
  const std::uint64_t before = BytesRead();
  EXPECT_FALSE(FindMemfdBehind(used, kPage));
  EXPECT_LT(BytesRead() - before, 1000U) << "the list has more";
  munmap(used, kPage);
}

}  // namespace
}  // namespace nd::os
