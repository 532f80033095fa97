// SPDX-License-Identifier: Apache-2.0
// Peers that are not ndbroker: Linux siw with its real protocol, and strangers that send arbitrary bytes.
//
// They use raw bytes on the simulated TCP; the codecs only help to build frames and to corrupt them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "tests/sim/talk.h"

namespace nd::sim {

class Foreign {
 public:
  Foreign(Schedule& schedule, Dice& dice, Net& net, int hosts)
      : schedule_(schedule), dice_(dice), net_(net), hosts_(hosts) {}
  // Starts servers on 10.9.0.1, ports 7000 to 7003.
  void Start();
  // Starts a random action of a peer against a random host.
  void Act();
  void WindDown();

  std::uint64_t peers = 0, talked = 0;

 private:
  struct Peer {
    EndId end = 0;
    bool client = false;
    int mind = 0;
    Bytes request;  // Client: the bytes that it sends.
    std::size_t sent = 0;
    bool answered = false, enhanced = false, crc = false;
    std::unique_ptr<Talk> talk;
    std::uint32_t messages_left = 0;
  };

  Address Target();
  Bytes Request();
  void Connected(EndId end, int error);
  void Trickle(EndId end);
  void OnClientInput(EndId end);
  void OnServerInput(EndId end);
  void Chat(EndId end, bool crc);
  void SendNext(EndId end);
  void Drop(EndId end, bool reset);

  Schedule& schedule_;
  Dice& dice_;
  Net& net_;
  const int hosts_;
  bool over_ = false;
  std::map<EndId, std::unique_ptr<Peer>> peers_;
};

}  // namespace nd::sim
