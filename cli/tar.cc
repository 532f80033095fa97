// SPDX-License-Identifier: Apache-2.0
// Sixty lines of ustar instead of a dependency; gRPC links zlib anyway.
#include "cli/tar.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace nd::cli {
namespace {

constexpr std::size_t kBlock = 512;

// The header block of POSIX.1-1988; numbers are octal text.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
  char type;
  char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t N>
void Octal(char (&field)[N], unsigned long long value) {
  std::snprintf(field, N, "%0*llo", static_cast<int>(N - 1), value);
}

Header HeaderOf(const ArchiveFile& file, std::time_t when) {
  Header header{};
  std::memcpy(header.name, file.name.data(), std::min(file.name.size(), sizeof(header.name)));
  Octal(header.mode, 0644);
  Octal(header.uid, 0);
  Octal(header.gid, 0);
  Octal(header.size, file.content.size());
  Octal(header.mtime, static_cast<unsigned long long>(when));
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  std::memcpy(header.user, "root", 5);
  std::memcpy(header.group, "root", 5);
  std::memset(header.checksum, ' ', sizeof(header.checksum));
  unsigned sum = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  for (std::size_t i = 0; i < kBlock; ++i) sum += bytes[i];
  std::snprintf(header.checksum, sizeof(header.checksum), "%06o", sum);
  return header;
}

}  // namespace

std::string Tar(const std::vector<ArchiveFile>& files, std::time_t when) {
  std::string out;
  for (const ArchiveFile& file : files) {
    const Header header = HeaderOf(file, when);
    out.append(reinterpret_cast<const char*>(&header), kBlock);
    out += file.content;
    out.append((kBlock - file.content.size() % kBlock) % kBlock, '\0');
  }
  return out.append(2 * kBlock, '\0');
}

std::string Gzip(std::string_view data) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string out(deflateBound(&stream, static_cast<uLong>(data.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(done ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

}  // namespace nd::cli
