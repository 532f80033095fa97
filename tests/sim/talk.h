// SPDX-License-Identifier: Apache-2.0
// The traffic of two applications on an established stream, with the real RDMAP, DDP and MPA codecs.
//
// Every message carries the end of its sender and its number, so that a byte that is lost, duplicated or of
// another stream is detected at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "provider/soft/transports.h"
#include "provider/soft/wire/bytes.h"
#include "tests/sim/net.h"

namespace nd::sim {

class Talk {
 public:
  enum class End : std::uint8_t { kNone, kGoodbye, kReset, kTimeout, kBroken };
  struct Callbacks {
    std::function<void(End)> ended;                 // Called once.
    std::function<void(const std::string&)> wrong;  // Called for data that an honest peer cannot have sent.
  };

  // `record` is the record of the hand-over. `trusted`: the peer is honest and its stamps are checked.
  Talk(Net& net, Dice& dice, EndId end, const provider::HandOffRecord& record, bool trusted,
       Callbacks callbacks);
  ~Talk();
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  // Returns false when the stream is broken.
  bool SendMessage();
  // Sends a Read of zero bytes; does nothing beyond the limit.
  bool SendRead();
  void SendTerminate();
  void Goodbye();
  void Close(bool reset);
  // Starts or stops reading.
  void SetReading(bool reading);

  End ended() const { return ended_; }
  std::uint32_t sent() const { return sent_; }
  std::uint32_t received() const { return received_; }
  EndId end() const { return end_; }
  const provider::HandOffRecord& record() const { return record_; }

 private:
  void OnChange();
  bool Handle(provider::soft::wire::ByteSpan ulpdu);
  void Finish(End how);
  void Wrong(const std::string& what);
  bool Frame(const Bytes& header_and_payload);

  Net& net_;
  Dice& dice_;
  const EndId end_;
  const provider::HandOffRecord record_;
  const bool trusted_;
  Callbacks callbacks_;
  End ended_ = End::kNone;
  bool reading_ = true, goodbye_sent_ = false, closed_ = false;
  provider::soft::IwarpPayload msn_;  // The next message sequence numbers.
  std::uint32_t reads_out_ = 0, offset_in_ = 0;
  std::uint32_t sent_ = 0, received_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace nd::sim
