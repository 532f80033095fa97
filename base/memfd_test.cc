// SPDX-License-Identifier: Apache-2.0
#include "base/memfd.h"

#include <gtest/gtest.h>

#include "base/os/socket.h"
#include "base/os/wake_event.h"

namespace nd {
namespace {

TEST(Memfd, SizeIsRoundedUpToPagesAndKnown) {
  const auto fd = CreateSealedMemfd("test", 5000);
  ASSERT_TRUE(fd.ok());
  const auto size = CheckSealedMemfd(fd->get(), 5000);
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(*size, 8192u);
  EXPECT_EQ(CheckSealedMemfd(fd->get(), 8193).code(), StatusCode::kAccessViolation);
}

TEST(Memfd, DescriptorsOfOtherThingsAreRefused) {
  const os::WakeEvent event;
  UniqueFd near, far;
  ASSERT_TRUE(os::MakeStreamPair(&near, &far, /*blocking=*/false));
  EXPECT_EQ(CheckSealedMemfd(event.handle(), 1).code(), StatusCode::kAccessViolation);
  EXPECT_EQ(CheckSealedMemfd(near.get(), 1).code(), StatusCode::kAccessViolation);
  EXPECT_EQ(CheckSealedMemfd(-1, 1).code(), StatusCode::kAccessViolation);
}

TEST(Memfd, MappingsShareTheBytesAndOutliveTheDescriptor) {
  auto fd = CreateSealedMemfd("test", 4096);
  ASSERT_TRUE(fd.ok());
  const auto one = Mapping::Map(fd->get(), 4096, /*writable=*/true);
  const auto other = Mapping::Map(fd->get(), 4096, /*writable=*/false);
  fd->reset();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(other->data()[4095], std::byte{0});
  one->data()[4095] = std::byte{7};
  EXPECT_EQ(other->data()[4095], std::byte{7});
}

TEST(Memfd, ReadOnlySegmentIsWritableForItsCreatorOnly) {
  Mapping mine;
  const auto fd = CreateReadOnlyMemfd("page", 4096, &mine);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(Mapping::Map(fd->get(), 4096, /*writable=*/true).code(), StatusCode::kInsufficientResources);
  const auto theirs = Mapping::Map(fd->get(), 4096, /*writable=*/false);
  ASSERT_TRUE(theirs.ok());
  mine.data()[7] = std::byte{42};
  EXPECT_EQ(theirs->data()[7], std::byte{42});
}

}  // namespace
}  // namespace nd
