// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "tests/crash/hostile/peer_attacks.h"
#include "tests/crash/hostile/raw_peer.h"

namespace nd::hostile {
namespace {

// 127.1.1.1 to 127.16.1.1: sixteen source networks.
std::uint32_t Source(int number) {
  return static_cast<std::uint32_t>((1 + number % 16) << 16 | 0x101);
}
bool Gone(int fd) {
  char byte;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}
void Reset(UniqueFd& fd) {
  const linger now{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd.reset();
}
Bytes Front(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(size, bytes.size()))};
}

}  // namespace

// One byte at a time from sixteen networks; each connection that the broker ends is opened again.
void SlowHandshakes(const Target& target) {
  constexpr std::size_t kConnections = 1000;
  const Bytes request = RequestFrame(kVictimPort);
  struct Slow {
    UniqueFd fd;
    std::size_t sent = 0;
  };
  std::vector<Slow> all(kConnections);
  for (;;) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Slow& slow = all[i];
      if (!slow.fd || Gone(slow.fd.get())) slow = {DialWire(target.host, Source(static_cast<int>(i))), 0};
      if (slow.fd && slow.sent + 1 < request.size()) {
        static_cast<void>(SendAll(slow.fd.get(), {request[slow.sent++]}));
      }
    }
    Underway();
    ::usleep(200'000);
  }
}

void SilentConnections(const Target& target) {
  std::vector<UniqueFd> all(2000);
  for (;;) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i] || Gone(all[i].get())) all[i] = DialWire(target.host, Source(static_cast<int>(i)));
    }
    Underway();
    ::usleep(50'000);
  }
}

// Whole requests for a port without a listener; each of them is refused.
void FloodHandshakes(const Target& target) {
  for (int i = 0;; ++i) {
    std::array<UniqueFd, 32> all;
    for (UniqueFd& fd : all) {
      fd = DialWire(target.host, Source(i));
      if (fd) static_cast<void>(SendAll(fd.get(), RequestFrame(9)));
    }
    for (UniqueFd& fd : all) {
      std::byte first;
      if (fd) static_cast<void>(ReceiveAll(fd.get(), &first, 1));
      Reset(fd);
    }
    Underway();
  }
}

// Requests for the victim's listener, withdrawn at once or never confirmed.
void FloodFullBacklog(const Target& target) {
  for (int i = 0;; ++i) {
    std::vector<UniqueFd> all(64);
    for (UniqueFd& fd : all) {
      fd = DialWire(target.host, Source(i));
      if (fd) static_cast<void>(SendAll(fd.get(), RequestFrame(kVictimPort)));
    }
    Underway();
    for (std::size_t k = 0; k < all.size(); k += 2) Reset(all[k]);
  }
}

// Each byte of a valid request, with random values, sent whole or in two parts.
void MutatedRequests(const Target& target) {
  std::mt19937 random(3);
  for (std::size_t i = 0;; ++i) {
    Bytes request = RequestFrame(kVictimPort, "data");
    request[i % request.size()] = static_cast<std::byte>(random());
    UniqueFd fd = DialWire(target.host, Source(static_cast<int>(i)));
    if (!fd) continue;
    const std::size_t cut = random() % request.size();
    static_cast<void>(SendAll(fd.get(), Front(request, cut)));
    if (random() % 2 == 0)
      static_cast<void>(
          SendAll(fd.get(), Bytes(request.begin() + static_cast<std::ptrdiff_t>(cut), request.end())));
    if (random() % 4 == 0) Reset(fd);
    Underway();
  }
}

void PrivateDataSizes(const Target& target) {
  constexpr std::array<std::size_t, 14> kSizes = {0,   1,   251, 252, 253, 254,   255,
                                                  256, 257, 511, 512, 513, 32768, 65535};
  for (std::size_t i = 0;; ++i) {
    // The length of the frame is in its bytes 18 and 19, and counts the ports and the limits.
    Bytes request = RequestFrame(kVictimPort);
    const std::size_t size = kSizes[i % kSizes.size()];
    request.resize(wire::kMpaHeaderSize + size, std::byte{1});
    request[18] = static_cast<std::byte>(size >> 8);
    request[19] = static_cast<std::byte>(size);
    const UniqueFd fd = DialWire(target.host, Source(static_cast<int>(i)));
    if (fd) static_cast<void>(SendAll(fd.get(), request));
    Underway();
  }
}

// The end of the stream at each byte of the request: closed, reset, or silent.
void CutRequests(const Target& target) {
  std::vector<UniqueFd> silent(64);
  for (std::size_t i = 0;; ++i) {
    const Bytes request = RequestFrame(kVictimPort, std::string(100, 'x'));
    UniqueFd fd = DialWire(target.host, Source(static_cast<int>(i)));
    if (!fd) continue;
    static_cast<void>(SendAll(fd.get(), Front(request, i / 3 % request.size())));
    if (i % 3 == 1) Reset(fd);
    if (i % 3 == 2) silent[i % silent.size()] = std::move(fd);
    Underway();
  }
}

// The victim has accepted. The confirmation is cut, changed, or followed by the end of the stream.
void MutatedConfirmations(const Target& target) {
  std::mt19937 random(5);
  wire::Segment empty;
  empty.opcode = wire::Opcode::kWrite;
  const Bytes valid = Fpdu(empty, {});
  for (;;) {
    Established peer = Establish(target.host, false);
    if (!peer.socket) continue;
    Bytes confirmation = Front(valid, random() % (valid.size() + 1));
    if (!confirmation.empty()) confirmation[random() % confirmation.size()] ^= std::byte{1};
    static_cast<void>(SendAll(peer.socket.get(), confirmation));
    if (random() % 2 == 0) Reset(peer.socket);
    Underway();
  }
}

}  // namespace nd::hostile
