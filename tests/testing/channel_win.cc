// SPDX-License-Identifier: Apache-2.0
// The two ends are those of a named pipe. Neither waits for both directions at once, because a helper speaks
// only when it was asked.
#include "base/os/object_win.h"
#include "tests/testing/channel.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace nd::testing {

bool ReadAll(int fd, char* to, std::size_t size) {
  const auto file = os::FindAs<os::FileObject>(fd);
  while (file && size > 0) {
    DWORD n = 0;
    if (::ReadFile(file->get(), to, static_cast<DWORD>(size), &n, nullptr) == 0 || n == 0) return false;
    to += n;
    size -= n;
  }
  return file != nullptr;
}

bool WriteAll(int fd, const char* from, std::size_t size) {
  const auto file = os::FindAs<os::FileObject>(fd);
  while (file && size > 0) {
    DWORD n = 0;
    if (::WriteFile(file->get(), from, static_cast<DWORD>(size), &n, nullptr) == 0) return false;
    from += n;
    size -= n;
  }
  return file != nullptr;
}

void MakeChannelPair(UniqueFd* ours, UniqueFd* theirs) {
  static int count = 0;
  const std::string name =
      "\\\\.\\pipe\\ndbroker-test-" + std::to_string(::GetCurrentProcessId()) + "-" + std::to_string(++count);
  constexpr DWORD kBuffer = 64 * 1024;
  os::Handle server(::CreateNamedPipeA(name.c_str(), PIPE_ACCESS_DUPLEX | FILE_FLAG_FIRST_PIPE_INSTANCE,
                                       PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, 1, kBuffer, kBuffer, 0,
                                       nullptr));
  os::Handle client(
      ::CreateFileA(name.c_str(), GENERIC_READ | GENERIC_WRITE, 0, nullptr, OPEN_EXISTING, 0, nullptr));
  if (!server || !client) {
    std::fprintf(stderr, "a pipe to a helper: Windows error %lu\n", ::GetLastError());
    std::abort();
  }
  ours->reset(os::PutObject(std::make_shared<os::FileObject>(std::move(server))));
  theirs->reset(os::PutObject(std::make_shared<os::FileObject>(std::move(client))));
}

}  // namespace nd::testing
