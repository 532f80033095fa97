// SPDX-License-Identifier: Apache-2.0
// ndbroker-ndprobe DLL CLASS: prints the adapters of a DLL of Network Direct (probe_output.h). The broker
// runs it; CLASS is the class of the provider as 32 hexadecimal digits, in the order of the bytes in memory.
// Exit 0: printed. 1: the DLL has no usable adapter. 2: wrong arguments.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "provider/networkdirect/cm/probe_output.h"
#include "provider/networkdirect/dll_win.h"

namespace {

using nd::provider::networkdirect::ClassId;

std::optional<ClassId> ClassFrom(std::wstring_view text) {
  ClassId id{};
  if (text.size() != 2 * id.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = std::wstring_view(L"0123456789abcdef").find(text[i]);
    if (digit == std::wstring_view::npos) return std::nullopt;
    id[i / 2] = static_cast<std::uint8_t>(id[i / 2] << 4 | digit);
  }
  return id;
}

int Fail(const nd::Status& status) {
  std::printf("failed %s\ndone\n", status.message().c_str());
  return 1;
}

}  // namespace

int wmain(int argc, wchar_t** argv) {
  const auto class_id = argc == 3 ? ClassFrom(argv[2]) : std::nullopt;
  if (!class_id) {
    std::fprintf(stderr, "usage: ndbroker-ndprobe DLL CLASS\n");
    return 2;
  }
  // A fault of the DLL is an exit code, without a window.
  ::SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
  WSADATA started;
  ::WSAStartup(MAKEWORD(2, 2), &started);
  const std::u8string path = std::filesystem::path(argv[1]).u8string();
  auto provider = nd::provider::networkdirect::LoadProvider({path.begin(), path.end()}, *class_id);
  if (!provider.ok()) return Fail(provider.status());
  auto adapters = nd::provider::networkdirect::QueryAdapters(*provider->get());
  if (!adapters.ok()) {
    return Fail({adapters.code(), adapters.status().ToString()});
  }
  for (const nd::AdapterInfo& adapter : *adapters) {
    std::fputs(nd::provider::networkdirect::LineOf(adapter).c_str(), stdout);
  }
  std::puts("done");
  std::fflush(stdout);
  // Without the destructors of the DLL, which could wait for its threads.
  ::TerminateProcess(::GetCurrentProcess(), 0);
  return 0;
}
