// SPDX-License-Identifier: Apache-2.0
// Files, as far as <filesystem> and <fstream> do not suffice: owners, and files that must be new. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nd::os {

struct FileFacts {
  enum class Kind { kFile, kDirectory, kSocket, kLink, kOther };
  Kind kind = Kind::kOther;
  std::uint64_t size = 0;
  std::uint32_t owner = 0;        // The number of a user.
  std::uint32_t permissions = 0;  // As <filesystem> has them: 0600.
};

// Of the file that `path` leads to. Returns 0, or an error number of <cerrno>.
int Look(const std::string& path, FileFacts* facts);
// The same without following a link at the end of `path`.
int LookAtLink(const std::string& path, FileFacts* facts);

enum class Readers { kOwner, kEveryone };

// Makes a file with these bytes. Returns 0, or an error number of <cerrno>: EEXIST when the name is taken. A
// file that could not be written completely is removed.
int WriteNewFile(const std::string& path, std::string_view bytes, Readers readers);

// Replaces or makes the file with these bytes, through `temporary`, a name in the same directory that is
// removed first. A reader sees the old file or the whole new one. Returns 0, or an error number of <cerrno>.
int ReplaceFile(const std::string& path, const std::string& temporary, std::string_view bytes,
                Readers readers);

// Makes an empty file that only its owner may read, unless the file is there. Returns 0, or an error number
// of <cerrno>: ELOOP when the name is a link.
int EnsureFile(const std::string& path);

// Reads at most `most` bytes of a secret of this user. Returns 0, or an error number of <cerrno>: EPERM when
// it is not an ordinary file that belongs to this user and that nobody else may read or write.
int ReadPrivateFile(const std::string& path, std::size_t most, std::string* bytes);

// While an object lives, files and sockets that this process makes are for their owner alone: the process has
// only one such setting, for all its threads.
class OwnersFilesOnly {
 public:
  OwnersFilesOnly();
  ~OwnersFilesOnly();
  OwnersFilesOnly(const OwnersFilesOnly&) = delete;
  OwnersFilesOnly& operator=(const OwnersFilesOnly&) = delete;

 private:
  const std::uint32_t before_;
};

// Makes a directory that only its owner may enter. Returns 0, or an error number of <cerrno>.
int MakePrivateDirectory(const std::string& path);

// Removes a file, a link or a socket, but no directory. Returns 0, or an error number of <cerrno>.
int RemoveFile(const std::string& path);

}  // namespace nd::os
