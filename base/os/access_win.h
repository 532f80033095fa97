// SPDX-License-Identifier: Apache-2.0
// Access lists that this program sets and judges, and names of files. Any thread.
#pragma once

#include <memory>
#include <string>

#include "base/os/object_win.h"

namespace nd::os {

// A path as the system takes it.
std::wstring WidePath(const std::string& path);

// A security descriptor of a new object: it belongs to this user, who has every right with administrators and
// the system; everyone else has `others`. False: the system cannot make one.
class NewAccess {
 public:
  // kYes: a directory passes its list on, without the entry of everyone else, to what is made in it.
  enum class Inherited { kNo, kYes };
  explicit NewAccess(ACCESS_MASK others = 0, Inherited inherited = Inherited::kYes);
  ~NewAccess();
  NewAccess(const NewAccess&) = delete;
  NewAccess& operator=(const NewAccess&) = delete;

  explicit operator bool() const { return descriptor_ != nullptr; }
  SECURITY_ATTRIBUTES* get() { return &attributes_; }

 private:
  PSECURITY_DESCRIPTOR descriptor_ = nullptr;
  SECURITY_ATTRIBUTES attributes_{};
};

// The owner of an open file or directory, and the access that its list grants to anybody except for the
// owner, this user, administrators and the system.
struct FileAccess {
  std::uint32_t owner = 0;  // The number of a user (user_win.h).
  bool ours = false;        // The owner is this user, administrators or the system.
  bool others_read = false, others_write = false;
};
// False: errno says why.
bool AccessOf(HANDLE file, FileAccess* access);

}  // namespace nd::os
