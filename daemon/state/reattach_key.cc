// SPDX-License-Identifier: Apache-2.0
// The key's file: a mark and 16 random bytes.
#include "daemon/state/reattach_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/unique_fd.h"
#include "daemon/ops/process.h"

namespace nd::state {
namespace {

constexpr std::array<std::uint8_t, 8> kMark = {'N', 'D', 'P', 'R', 'O', 'O', 'F', '1'};
using Image = std::array<std::uint8_t, kMark.size() + std::tuple_size_v<HashKey>>;

// The key, or why there is none; no key and no reason: there is no file.
std::optional<HashKey> Read(const std::string& path, std::string* problem) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    if (errno != ENOENT) *problem = "cannot open " + path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  struct stat st;
  Image image{}, more;
  if (::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != ::geteuid() ||
      (st.st_mode & 077) != 0) {
    *problem = path + " is not an ordinary file that only uid " + std::to_string(::geteuid()) + " may read";
    return std::nullopt;
  }
  const bool whole = ::read(fd.get(), image.data(), image.size()) == static_cast<ssize_t>(image.size()) &&
                     ::read(fd.get(), more.data(), 1) == 0;
  if (!whole || !std::equal(kMark.begin(), kMark.end(), image.begin())) {
    *problem = path + " is damaged";
    return std::nullopt;
  }
  HashKey key;
  std::copy(image.begin() + kMark.size(), image.end(), key.begin());
  return key;
}

bool Write(const std::string& path, const HashKey& key) {
  Image image;
  std::copy(kMark.begin(), kMark.end(), image.begin());
  std::copy(key.begin(), key.end(), image.begin() + kMark.size());
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  const UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return false;
  if (::write(fd.get(), image.data(), image.size()) == static_cast<ssize_t>(image.size()) &&
      ::rename(fresh.c_str(), path.c_str()) == 0) {
    return true;
  }
  const int error = errno;
  ::unlink(fresh.c_str());
  errno = error;
  return false;
}

}  // namespace

ReattachKey::ReattachKey(const std::string& directory, std::string boot) : boot_(std::move(boot)) {
  const std::string path = directory + "/" + kReattachKeyName;
  if (const std::optional<HashKey> key = Read(path, &problem_)) {
    key_ = *key;
    return;
  }
  if (!problem_.empty()) problem_ += "; connections of before do not come back to this broker";
  ops::RandomBytes(std::as_writable_bytes(std::span(key_)));
  if (Write(path, key_)) return;
  if (!problem_.empty()) problem_ += "; ";
  problem_ += "cannot write " + path + ": " + std::strerror(errno) +
              "; connections will not come back to the next broker";
}

provider::Bytes ReattachKey::Prove(const core::ConnectionFacts& facts) const {
  const std::string text = boot_ + "\n" + facts.adapter + "\n" + facts.local.ToString() + "\n" +
                           facts.remote.ToString() + (facts.passive ? "\npassive\n" : "\nactive\n") +
                           std::to_string(facts.uid);
  const auto hash = SipHash128(key_, text);
  return {hash.begin(), hash.end()};
}

}  // namespace nd::state
