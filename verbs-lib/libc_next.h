// SPDX-License-Identifier: Apache-2.0
// The functions of the C library behind those that this library defines under the same names.
#pragma once

#include <dlfcn.h>

namespace nd::verbs_lib {

// The next definition of `name`, which is the C library's or that of another preloaded library.
template <typename Function>
Function* Next(Function** cache, const char* name) {
  Function* found = __atomic_load_n(cache, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    __atomic_store_n(cache, found, __ATOMIC_RELAXED);
  }
  return found;
}

#define NDBROKER_NEXT(name)                     \
  ([]() {                                       \
    static decltype(&name) next;                \
    return ::nd::verbs_lib::Next(&next, #name); \
  }())

}  // namespace nd::verbs_lib
