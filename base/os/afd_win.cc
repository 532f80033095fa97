// SPDX-License-Identifier: Apache-2.0
#include "base/os/afd_win.h"

namespace nd::os {

Handle OpenAfd() {
  static constexpr wchar_t kPath[] = L"\\Device\\Afd\\ndbroker";
  UNICODE_STRING name{};
  name.Length = sizeof kPath - sizeof *kPath;
  name.MaximumLength = sizeof kPath;
  name.Buffer = const_cast<wchar_t*>(kPath);
  OBJECT_ATTRIBUTES attributes{};
  attributes.Length = sizeof attributes;
  attributes.ObjectName = &name;
  IO_STATUS_BLOCK io;
  HANDLE afd = nullptr;
  const NTSTATUS status = ::NtCreateFile(&afd, SYNCHRONIZE, &attributes, &io, nullptr, 0,
                                         FILE_SHARE_READ | FILE_SHARE_WRITE, FILE_OPEN, 0, nullptr, 0);
  return Handle(status == 0 ? afd : nullptr);
}

}  // namespace nd::os
