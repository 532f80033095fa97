// SPDX-License-Identifier: Apache-2.0
// Functions of versions of libibverbs that are newer than the headers of this build. A part of
// verbs_by_number_test.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tests/verbs-programs/number_end.h"

namespace nd::verbs_programs {
namespace {

template <typename Function>
Function* Named(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// As ibv_rc_pingpong of rdma-core 65 does.
TEST(Newer, ABufferOfTheLibraryIsRegisteredInItsDomain) {
  ibv_pd* const domain = fabric().domain;
  auto* const allocate = Named<void*(ibv_pd*, std::size_t, void**)>("ibv_alloc_buf");
  auto* const reg = Named<ibv_mr*(ibv_pd*, void*, void*, std::size_t, int)>("ibv_reg_buf_mr");
  auto* const release = Named<void(void*)>("ibv_free_buf");
  auto* const exports = Named<int(void*)>("ibv_export_buf_dmabuf_fd");
  ASSERT_TRUE(allocate != nullptr && reg != nullptr && release != nullptr && exports != nullptr);

  void* buffer = nullptr;
  auto* const memory = static_cast<char*>(allocate(domain, 8192, &buffer));
  ASSERT_NE(memory, nullptr) << std::strerror(errno);
  std::memset(memory, 1, 8192);
  ibv_mr* const region = reg(domain, buffer, memory + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr) << std::strerror(errno);
  EXPECT_EQ(region->addr, memory + 4096);
  EXPECT_EQ(region->length, 4096u);
  EXPECT_EQ(ibv_dereg_mr(region), 0);

  EXPECT_EQ(reg(domain, buffer, memory + 4096, 4097, 0), nullptr);
  EXPECT_EQ(errno, EINVAL) << "beyond the buffer";
  EXPECT_EQ(reg(domain, buffer, memory - 1, 2, 0), nullptr);
  EXPECT_EQ(errno, EINVAL) << "in front of the buffer";
  ibv_pd* const other = ibv_alloc_pd(fabric().context);
  EXPECT_EQ(reg(other, buffer, memory, 4096, 0), nullptr);
  EXPECT_EQ(errno, EINVAL) << "another domain";
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  EXPECT_EQ(exports(buffer), -1);
  EXPECT_EQ(errno, ENODATA);
  release(buffer);
  EXPECT_EQ(allocate(domain, 0, &buffer), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace nd::verbs_programs
