// SPDX-License-Identifier: Apache-2.0
// The key's file: a mark and 16 random bytes.
#include "daemon/state/reattach_key.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "base/os/error_text.h"
#include "base/os/file.h"
#include "base/os/random.h"
#include "base/os/self.h"

namespace nd::state {
namespace {

constexpr std::array<char, 8> kMark = {'N', 'D', 'P', 'R', 'O', 'O', 'F', '1'};
using Image = std::array<char, kMark.size() + std::tuple_size_v<HashKey>>;

// Returns the key. Without a key *problem is the reason; it stays empty when there is no file.
std::optional<HashKey> Read(const std::string& path, std::string* problem) {
  std::string image;
  const int error = os::ReadPrivateFile(path, sizeof(Image) + 1, &image);
  if (error == ENOENT) return std::nullopt;
  if (error == EPERM) {
    *problem = path + " is not an ordinary file that only uid " + std::to_string(os::EffectiveUserNumber()) +
               " may read";
    return std::nullopt;
  }
  if (error != 0) {
    *problem = "cannot open " + path + ": " + os::ErrorText(error);
    return std::nullopt;
  }
  if (image.size() != sizeof(Image) || !std::equal(kMark.begin(), kMark.end(), image.begin())) {
    *problem = path + " is damaged";
    return std::nullopt;
  }
  HashKey key;
  std::copy(image.begin() + kMark.size(), image.end(), key.begin());
  return key;
}

// Returns 0, or an error number.
int Write(const std::string& path, const HashKey& key) {
  Image image;
  std::copy(kMark.begin(), kMark.end(), image.begin());
  std::copy(key.begin(), key.end(), image.begin() + kMark.size());
  return os::ReplaceFile(path, path + ".new", {image.data(), image.size()}, os::Readers::kOwner);
}

}  // namespace

ReattachKey::ReattachKey(const std::string& directory, std::string boot) : boot_(std::move(boot)) {
  const std::string path = directory + "/" + kReattachKeyName;
  if (const std::optional<HashKey> key = Read(path, &problem_)) {
    key_ = *key;
    return;
  }
  if (!problem_.empty()) problem_ += "; connections of before do not come back to this broker";
  os::FillWithRandom(std::as_writable_bytes(std::span(key_)));
  const int error = Write(path, key_);
  if (error == 0) return;
  if (!problem_.empty()) problem_ += "; ";
  problem_ += "cannot write " + path + ": " + os::ErrorText(error) +
              "; connections will not come back to the next broker";
}

provider::Bytes ReattachKey::Prove(const core::ConnectionFacts& facts) const {
  std::string text;
  text.reserve(256);
  const std::string local = facts.local.ToString(), remote = facts.remote.ToString();
  const std::string uid = std::to_string(facts.uid);
  for (const std::string_view part :
       {std::string_view(boot_), std::string_view("\n"), std::string_view(facts.adapter),
        std::string_view("\n"), std::string_view(local), std::string_view("\n"), std::string_view(remote),
        std::string_view(facts.passive ? "\npassive\n" : "\nactive\n"), std::string_view(uid)}) {
    text += part;
  }
  const auto hash = SipHash128(key_, text);
  return {hash.begin(), hash.end()};
}

}  // namespace nd::state
