// SPDX-License-Identifier: Apache-2.0
// The functions of the C library through which programs read /sys/class/infiniband, apart from those of
// libc_doors.cc. Each is the C library's own with the path of the real file.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "verbs-lib/export.h"
#include "verbs-lib/libc_next.h"
#include "verbs-lib/virtual_sysfs.h"

using nd::verbs_lib::RealPath;

namespace {

// An absolute path does not depend on the folder.
template <typename Function>
int OpenAt(Function* next, int folder, const char* path, int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const RealPath real(path);
  if (!has_mode) return next(folder, real.get(), flags);
  return next(folder, real.get(), flags, va_arg(arguments, mode_t));
}

}  // namespace

NDBROKER_PUBLIC int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int fd = OpenAt(NDBROKER_NEXT(openat), folder, path, flags, arguments);
  va_end(arguments);
  return fd;
}

NDBROKER_PUBLIC int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int fd = OpenAt(NDBROKER_NEXT(openat64), folder, path, flags, arguments);
  va_end(arguments);
  return fd;
}

NDBROKER_PUBLIC FILE* fopen(const char* path, const char* mode) {
  return NDBROKER_NEXT(fopen)(RealPath(path).get(), mode);
}

NDBROKER_PUBLIC FILE* fopen64(const char* path, const char* mode) {
  return NDBROKER_NEXT(fopen64)(RealPath(path).get(), mode);
}

NDBROKER_PUBLIC DIR* opendir(const char* path) {
  return NDBROKER_NEXT(opendir)(RealPath(path).get());
}

NDBROKER_PUBLIC int scandir(const char* path, dirent*** list, int (*wanted)(const dirent*),
                            int (*compare)(const dirent**, const dirent**)) {
  return NDBROKER_NEXT(scandir)(RealPath(path).get(), list, wanted, compare);
}

NDBROKER_PUBLIC int scandir64(const char* path, dirent64*** list, int (*wanted)(const dirent64*),
                              int (*compare)(const dirent64**, const dirent64**)) {
  return NDBROKER_NEXT(scandir64)(RealPath(path).get(), list, wanted, compare);
}

NDBROKER_PUBLIC int stat(const char* path, struct stat* out) noexcept {
  return NDBROKER_NEXT(stat)(RealPath(path).get(), out);
}

NDBROKER_PUBLIC int stat64(const char* path, struct stat64* out) noexcept {
  return NDBROKER_NEXT(stat64)(RealPath(path).get(), out);
}

NDBROKER_PUBLIC int lstat(const char* path, struct stat* out) noexcept {
  return NDBROKER_NEXT(lstat)(RealPath(path).get(), out);
}

NDBROKER_PUBLIC int lstat64(const char* path, struct stat64* out) noexcept {
  return NDBROKER_NEXT(lstat64)(RealPath(path).get(), out);
}

// Programs that were linked with a C library before 2.33 call these.
NDBROKER_PUBLIC int __xstat(int /*version*/, const char* path, struct stat* out) noexcept {
  return NDBROKER_NEXT(stat)(RealPath(path).get(), out);
}

NDBROKER_PUBLIC int __xstat64(int /*version*/, const char* path, struct stat64* out) noexcept {
  return NDBROKER_NEXT(stat64)(RealPath(path).get(), out);
}

NDBROKER_PUBLIC int __lxstat(int /*version*/, const char* path, struct stat* out) noexcept {
  return NDBROKER_NEXT(lstat)(RealPath(path).get(), out);
}

NDBROKER_PUBLIC int __lxstat64(int /*version*/, const char* path, struct stat64* out) noexcept {
  return NDBROKER_NEXT(lstat64)(RealPath(path).get(), out);
}

NDBROKER_PUBLIC int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
  return NDBROKER_NEXT(fstatat)(folder, RealPath(path).get(), out, flags);
}

NDBROKER_PUBLIC int fstatat64(int folder, const char* path, struct stat64* out, int flags) noexcept {
  return NDBROKER_NEXT(fstatat64)(folder, RealPath(path).get(), out, flags);
}

NDBROKER_PUBLIC int statx(int folder, const char* path, int flags, unsigned mask,
                          struct statx* out) noexcept {
  return NDBROKER_NEXT(statx)(folder, RealPath(path).get(), flags, mask, out);
}

NDBROKER_PUBLIC int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  return NDBROKER_NEXT(faccessat)(folder, RealPath(path).get(), mode, flags);
}
