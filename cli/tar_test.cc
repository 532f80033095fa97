// SPDX-License-Identifier: Apache-2.0
// The archive is read back by the system's own tar, which is the reader that counts.
#include "cli/tar.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace nd::cli {
namespace {

std::string Output(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) out.append(buffer, got);
  return pclose(pipe) == 0 ? out : "failed: " + out;
}

TEST(Archive, TheSystemsTarReadsIt) {
  char name[] = "/tmp/nd-tar-XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  close(fd);
  const std::string long_content(100000, 'x');
  std::ofstream(name) << Gzip(Tar(
      {{"d/a.txt", "hello\n"}, {"d/empty", ""}, {"d/exact", std::string(512, 'e')}, {"d/long", long_content}},
      1795255200));
  const std::string tar = std::string("TZ=UTC tar --numeric-owner -z -f ") + name;
  EXPECT_EQ("d/a.txt\nd/empty\nd/exact\nd/long\n", Output(tar + " -t"));
  EXPECT_EQ("hello\n", Output(tar + " -xO d/a.txt"));
  EXPECT_EQ("", Output(tar + " -xO d/empty"));
  EXPECT_EQ(std::string(512, 'e'), Output(tar + " -xO d/exact"));
  EXPECT_EQ(long_content, Output(tar + " -xO d/long"));
  const std::string list = Output(tar + " -tv d/a.txt");
  EXPECT_NE(std::string::npos, list.find("-rw-r--r-- 0/0")) << list;
  EXPECT_NE(std::string::npos, list.find("2026-11-21 10:00")) << list;
  unlink(name);
}

}  // namespace
}  // namespace nd::cli
