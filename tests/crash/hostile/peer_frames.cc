// SPDX-License-Identifier: Apache-2.0
// Each attack makes connections to the victim in turn and breaks a rule on each, because the victim ends a
// connection at its first violation.
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "tests/crash/hostile/peer_attacks.h"
#include "tests/crash/hostile/raw_peer.h"
#include "tests/testing/segments.h"

namespace nd::hostile {
namespace {

using testing::ReadOf;
using testing::Tagged;
using testing::Untagged;
using wire::Opcode;

std::mt19937& Random() {
  static std::mt19937 random(11);
  return random;
}

// Sends the frames of one connection, waits until the victim ends it, and begins again. With `forbidden`
// the victim must end it.
template <typename Frames>
[[noreturn]] void Repeat(const Target& target, Frames frames, bool confirm = true) {
  for (;;) {
    const Established peer = Establish(target.host, confirm);
    if (!peer.socket) continue;
    for (const Bytes& frame : frames(peer)) {
      if (!SendAll(peer.socket.get(), frame)) break;
    }
    ::shutdown(peer.socket.get(), SHUT_WR);
    std::byte buffer[4096];
    const timeval patience{5, 0};
    ::setsockopt(peer.socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (::recv(peer.socket.get(), buffer, sizeof buffer, 0) > 0) {
    }
    Underway();
  }
}
const Bytes kEight(8, std::byte{0x5A});

}  // namespace

void LengthsThatLie(const Target& target) {
  Repeat(target, [](const Established&) {
    // A cut header, and a length that is too large or too small for the frame.
    Bytes frame = Fpdu(Untagged(static_cast<Opcode>(Random()() % 8)), Bytes(Random()() % 64));
    const std::size_t size = Random()() % 65536;
    if (Random()() % 2 == 0) {
      frame[0] = static_cast<std::byte>(size >> 8);
      frame[1] = static_cast<std::byte>(size);
      return std::vector<Bytes>{frame};
    }
    Bytes cut(Random()() % 20, std::byte{0x40});
    return std::vector<Bytes>{Fpdu(cut)};
  });
}
void FirstFrameMalformed(const Target& target) {
  Repeat(
      target,
      [](const Established&) {
        Bytes frame(1 + Random()() % 64);
        for (std::byte& byte : frame) byte = static_cast<std::byte>(Random()());
        return std::vector<Bytes>{frame};
      },
      false);
}
void GuessTokens(const Target& target) {
  Repeat(target, [](const Established& peer) {
    const auto guess = static_cast<std::uint32_t>(Random()());
    return std::vector<Bytes>{Fpdu(Tagged(Opcode::kWrite, guess, peer.address), kEight)};
  });
}
// The right token, and an address around the ends of the region or of the address space.
void WriteOutside(const Target& target) {
  Repeat(target, [](const Established& peer) {
    const std::uint64_t places[] = {
        peer.address - 8, peer.address + 32768, peer.address + 32764, 0, UINT64_MAX - 3, UINT64_MAX,
        Random()()};
    const std::uint64_t place = places[Random()() % std::size(places)];
    return std::vector<Bytes>{Fpdu(Tagged(Opcode::kWrite, peer.token, place), kEight)};
  });
}
void WrongSequences(const Target& target) {
  Repeat(target, [](const Established&) {
    switch (Random()() % 5) {
      case 0:
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kSend, 2), kEight)};
      case 1:
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kSend, 1, 8), kEight)};
      case 2:
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kSend, 1, 0, false), kEight),
                                  Fpdu(Untagged(Opcode::kSend, 1, 64), kEight)};
      case 3:
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kSend), kEight),
                                  Fpdu(Untagged(Opcode::kSend), kEight)};
      default:
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kSend, UINT32_MAX), kEight)};
    }
  });
}
void ResponsesNobodyAskedFor(const Target& target) {
  Repeat(target, [](const Established& peer) {
    return std::vector<Bytes>{Fpdu(Tagged(Opcode::kReadResponse, peer.token, peer.address), kEight)};
  });
}
void FloodReads(const Target& target) {
  Repeat(target, [](const Established& peer) {
    std::vector<Bytes> out;
    for (std::uint32_t i = 1; i <= 64; ++i)
      out.push_back(Fpdu(Untagged(Opcode::kReadRequest, i), ReadOf(peer.token, peer.address, 1 << 20)));
    return out;
  });
}
void WrongChecksums(const Target& target) {
  Repeat(target, [](const Established& peer) {
    Bytes frame = Fpdu(Tagged(Opcode::kWrite, peer.token, peer.address), kEight);
    const std::size_t bit = 16 + Random()() % (8 * frame.size() - 16);
    frame[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    return std::vector<Bytes>{frame};
  });
}
void MixedMessages(const Target& target) {
  Repeat(target, [](const Established& peer) {
    Bytes terminate(4 + Random()() % 40);
    for (std::byte& byte : terminate) byte = static_cast<std::byte>(Random()());
    switch (Random()() % 4) {
      case 0:  // Another kind of Send in the middle of a message.
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kSend, 1, 0, false), kEight),
                                  Fpdu(Untagged(Opcode::kSendSolicited, 1, 8), kEight)};
      case 1:  // The next message before the end of this one.
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kSend, 1, 0, false), kEight),
                                  Fpdu(Untagged(Opcode::kSend, 2), kEight)};
      case 2:
        return std::vector<Bytes>{Fpdu(Untagged(Opcode::kTerminate), terminate)};
      default:  // A message that never ends.
        return std::vector<Bytes>{Fpdu(Tagged(Opcode::kWrite, peer.token, peer.address), kEight),
                                  Fpdu(Untagged(Opcode::kSend, 1, 0, false), kEight)};
    }
  });
}
void ForeignInvalidates(const Target& target) {
  Repeat(target, [](const Established& peer) {
    wire::Segment segment = Untagged(Opcode::kSendInvalidate);
    segment.invalidate_stag = Random()() % 2 == 0 ? peer.token : static_cast<std::uint32_t>(Random()());
    return std::vector<Bytes>{Fpdu(segment, kEight)};
  });
}
void WrongFirstFrame(const Target& target) {
  Repeat(
      target,
      [](const Established&) {
        const Opcode opcodes[] = {Opcode::kReadRequest, Opcode::kReadResponse, Opcode::kSend,
                                  Opcode::kTerminate};
        return std::vector<Bytes>{Fpdu(Untagged(opcodes[Random()() % 4]), Bytes(28))};
      },
      false);
}
void EmptyOperations(const Target& target) {
  Repeat(target, [](const Established& peer) {
    Bytes many;
    const Bytes one = Fpdu(Tagged(Opcode::kWrite, peer.token, peer.address), {});
    for (int i = 0; i < 10'000; ++i) many.insert(many.end(), one.begin(), one.end());
    return std::vector<Bytes>(10, many);
  });
}
void TinySegments(const Target& target) {
  Repeat(target, [](const Established& peer) {
    std::vector<Bytes> out;
    Bytes many;
    for (std::uint32_t i = 0; i < 4096; ++i) {
      const Bytes one = Fpdu(Tagged(Opcode::kWrite, peer.token, peer.address + i), Bytes(1, std::byte{1}));
      many.insert(many.end(), one.begin(), one.end());
    }
    for (int i = 0; i < 10; ++i) out.push_back(many);
    return out;
  });
}
// Posts Reads without end and receives nothing: the victim's answers fill the window.
void NeverDrain(const Target& target) {
  for (;;) {
    std::vector<Established> open;
    for (int i = 0; i < 24; ++i) {
      Established peer = Establish(target.host);
      if (!peer.socket) continue;
      const int small = 4096;
      ::setsockopt(peer.socket.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
      for (std::uint32_t n = 1; n <= 4; ++n)
        static_cast<void>(SendAll(peer.socket.get(), Fpdu(Untagged(Opcode::kReadRequest, n),
                                                          ReadOf(peer.token, peer.address, 32768))));
      open.push_back(std::move(peer));
    }
    Underway();
    ::usleep(500'000);
  }
}
void RandomFrames(const Target& target) {
  Repeat(target, [](const Established&) {
    std::vector<Bytes> out;
    for (int i = 0; i < 8; ++i) {
      Bytes ulpdu(Random()() % 256);
      for (std::byte& byte : ulpdu) byte = static_cast<std::byte>(Random()());
      // The versions of DDP and RDMAP are right, so that the frame reaches the checks behind them.
      if (ulpdu.size() > 1) {
        ulpdu[0] = (ulpdu[0] & std::byte{0xC0}) | std::byte{0x01};
        ulpdu[1] = (ulpdu[1] & std::byte{0x0F}) | std::byte{0x40};
      }
      out.push_back(Fpdu(ulpdu));
    }
    return out;
  });
}

}  // namespace nd::hostile
