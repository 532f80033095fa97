// SPDX-License-Identifier: Apache-2.0
// One file "UID~VOLUME" for each volume, so that finding a pod needs no state in memory.
#include "daemon/pods/pod_registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/unique_fd.h"

namespace nd::pods {
namespace {

Status Refused(const std::string& text) {
  return {StatusCode::kInvalidParameter, text};
}

Status Failed(const std::string& what) {
  return {StatusCode::kUnsuccessful, what + ": " + std::strerror(errno), Detail::kNone, errno};
}

using Directory = std::unique_ptr<DIR, decltype([](DIR* d) { ::closedir(d); })>;

// Null when there is no such directory.
Result<Directory> OpenTrusted(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && errno == ENOENT) return Directory();
  if (!fd) return Failed(path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return Failed(path);
  if ((st.st_uid != 0 && st.st_uid != ::geteuid()) || (st.st_mode & 022) != 0) {
    return Status(
        StatusCode::kAccessDenied,
        path + " must belong to root or to the user of this program, and nobody else may write in it");
  }
  Directory directory(::fdopendir(fd.get()));
  if (!directory) return Failed(path);
  static_cast<void>(fd.release());
  return directory;
}

struct Found {
  std::string file;
  Pod pod;
};

Result<std::optional<Pod>> Read(int directory, const std::string& file) {
  const UniqueFd fd(::openat(directory, file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) return std::optional<Pod>();
  if (!fd) return Failed(file);
  std::array<char, 2048> text{};
  const ssize_t size = ::read(fd.get(), text.data(), text.size());
  if (size < 0) return Failed(file);
  Result<Pod> pod = Parse(std::string_view(text.data(), static_cast<std::size_t>(size)));
  if (!pod.ok()) return Refused(file + ": " + pod.status().message());
  if (!file.starts_with(pod->uid + "~")) return Refused(file + " holds the registration of another pod");
  return std::optional<Pod>(std::move(pod).value());
}

// Returns the first file whose name `wanted` accepts.
template <typename Wanted>
Result<std::optional<Found>> Search(const std::string& path, const Wanted& wanted) {
  Result<Directory> directory = OpenTrusted(path);
  if (!directory.ok()) return directory.status();
  if (!*directory) return std::optional<Found>();
  while (const dirent* entry = ::readdir(directory->get())) {
    const std::string file = entry->d_name;
    if (!wanted(file)) continue;
    Result<std::optional<Pod>> pod = Read(::dirfd(directory->get()), file);
    if (!pod.ok()) return pod.status();
    if (*pod) return std::optional<Found>(Found{file, std::move(**pod)});
  }
  return std::optional<Found>();
}

Result<std::optional<Found>> SearchVolume(const std::string& path, const std::string& volume) {
  return Search(path, [end = "~" + volume](const std::string& file) {
    return file.ends_with(end) && IsPodUid(std::string_view(file).substr(0, file.size() - end.size()));
  });
}

std::optional<Pod> PodOf(std::optional<Found> found) {
  if (!found) return std::nullopt;
  return std::move(found->pod);
}

}  // namespace

Status Registry::Add(const std::string& volume, const Pod& pod) const {
  if (!IsVolumeId(volume)) return Refused("this cannot be the id of a volume: '" + volume + "'");
  if (Status status = Check(pod); !status.ok()) return status;
  if (::mkdir(directory_.c_str(), 0755) != 0 && errno != EEXIST) return Failed(directory_);
  Result<std::optional<Found>> known = SearchVolume(directory_, volume);
  if (!known.ok()) return known.status();
  if (*known) {
    if ((*known)->pod == pod) return {};
    return {StatusCode::kAddressAlreadyExists, "volume " + volume + " belongs to pod " +
                                                   (*known)->pod.namespace_name + "/" + (*known)->pod.name};
  }
  // A reader sees the whole file or none.
  const std::string path = directory_ + "/" + pod.uid + "~" + volume,
                    temporary = directory_ + "/.new~" + volume;
  const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  const std::string text = Encode(pod);
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::rename(temporary.c_str(), path.c_str()) != 0) {
    const Status status = Failed(path);
    ::unlink(temporary.c_str());
    return status;
  }
  return {};
}

Status Registry::Remove(const std::string& volume) const {
  if (!IsVolumeId(volume)) return Refused("this cannot be the id of a volume: '" + volume + "'");
  Result<Directory> directory = OpenTrusted(directory_);
  if (!directory.ok()) return directory.status();
  if (!*directory) return {};
  const std::string end = "~" + volume;
  while (const dirent* entry = ::readdir(directory->get())) {
    const std::string_view file = entry->d_name;
    if (!file.ends_with(end) || !IsPodUid(file.substr(0, file.size() - end.size()))) continue;
    if (::unlinkat(::dirfd(directory->get()), entry->d_name, 0) != 0 && errno != ENOENT) {
      return Failed(entry->d_name);
    }
  }
  return {};
}

Result<std::optional<Pod>> Registry::OfVolume(const std::string& volume) const {
  Result<std::optional<Found>> found = SearchVolume(directory_, volume);
  if (!found.ok()) return found.status();
  return PodOf(std::move(*found));
}

Result<std::optional<Pod>> Registry::OfUid(const std::string& uid) const {
  if (!IsPodUid(uid)) return Refused("this is not the uid of a pod: '" + uid + "'");
  Result<std::optional<Found>> found =
      Search(directory_, [start = uid + "~"](const std::string& file) { return file.starts_with(start); });
  if (!found.ok()) return found.status();
  return PodOf(std::move(*found));
}

}  // namespace nd::pods
