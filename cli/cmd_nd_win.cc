// SPDX-License-Identifier: Apache-2.0
// ndctl nd: the entry of ndbrokernd.dll in the Winsock catalogue, where programs find Network Direct
// providers.
#include "base/os/access_win.h"

#include <memory>

#include "cli/commands.h"
#include "cli/context.h"
#include "nd-provider/catalogue_win.h"

namespace nd::cli {
namespace {

constexpr wchar_t kDll[] = L"ndbrokernd.dll";

std::string Utf8(const std::wstring& text) {
  std::string out(text.size() * 3, '\0');
  const int size = ::WideCharToMultiByte(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), out.data(),
                                         static_cast<int>(out.size()), nullptr, nullptr);
  out.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return out;
}

// In the directory of this ndctl.
std::wstring DllBeside() {
  std::wstring path(32768, L'\0');  // The longest path of the system.
  path.resize(::GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
  return path.substr(0, path.find_last_of(L'\\') + 1) + kDll;
}

// The catalogue wants a path that does not depend on the directory of a process.
std::wstring FullPath(const std::wstring& path) {
  std::wstring full(32768, L'\0');
  full.resize(::GetFullPathNameW(path.c_str(), static_cast<DWORD>(full.size()), full.data(), nullptr));
  return full;
}

Failure Install(const Context& context, const std::string& given) {
  const std::wstring path = given.empty() ? DllBeside() : FullPath(os::WidePath(given));
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  if (attributes == INVALID_FILE_ATTRIBUTES || (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0) {
    return Error{Exit::kUsage,
                 "there is no file " + Utf8(path),
                 "name the DLL of the provider: ndctl nd install C:\\DIRECTORY\\ndbrokernd.dll",
                 {}};
  }
  if (Failure failure = FailureOf(spi::InstallEntry(path), "cannot install the provider")) return failure;
  return context.Write("programs of Network Direct find " + Utf8(path) + "\n");
}

Failure Remove(const Context& context) {
  if (!spi::EntryExists()) return context.Write("the Winsock catalogue has no entry of ndbroker\n");
  if (Failure failure = FailureOf(spi::RemoveEntry(), "cannot remove the provider")) return failure;
  return context.Write("the entry is removed; programs that have the provider loaded keep it\n");
}

}  // namespace

void AddNd(Command root, Context& context) {
  Command app = root.Add("nd", "The Network Direct provider of this host: install, remove");
  app.RequireCommand();
  const auto path = std::make_shared<std::string>();
  Command install = app.Add("install", "Add the provider to the Winsock catalogue (administrators)");
  install.Add("DLL", path.get(), "Its file (default: ndbrokernd.dll beside ndctl.exe)");
  install.OnRun(context, [&context, path] { return Install(context, *path); });
  Command remove = app.Add("remove", "Take it out again (administrators)");
  remove.OnRun(context, [&context] { return Remove(context); });
}

}  // namespace nd::cli
