// SPDX-License-Identifier: Apache-2.0
// A connection manager like that of a device (verbs): it prepares queue pairs and sends the goodbyes itself.
//
// There is no byte stream: the two ends exchange messages through the Fabric, which delays and loses them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "provider/cm.h"
#include "provider/soft/cm/inbound_ids.h"
#include "tests/sim/dice.h"
#include "tests/sim/schedule.h"

namespace nd::sim {

class DeviceCm;

// Connects the devices of all hosts.
class Fabric {
 public:
  Fabric(Schedule& schedule, Dice& dice) : schedule_(schedule), dice_(dice) {}
  std::uint32_t loss = 10;  // Chance per mille that a message is lost and its sender times out.

 private:
  friend class DeviceCm;
  enum class Stage : std::uint8_t { kRequested, kPreparingReply, kReplied, kPreparingConfirm, kUp, kOver };
  struct Pair {
    DeviceCm* side[2] = {nullptr, nullptr};  // 0: active.
    provider::CmId id[2]{};
    Stage stage = Stage::kRequested;
    ReadLimits answer;
    provider::Bytes answer_data;
  };
  Schedule& schedule_;
  Dice& dice_;
  std::map<Address, DeviceCm*> listeners_;
  std::map<std::uint64_t, Pair> pairs_;
  std::uint64_t next_ = 1;
};

class DeviceCm {
 public:
  DeviceCm(Fabric& fabric, provider::CmSink& sink, provider::soft::InboundIds& ids, std::string adapter)
      : fabric_(fabric), sink_(sink), ids_(ids), adapter_(std::move(adapter)) {}
  // The broker died: the kernel informs the peers.
  ~DeviceCm();
  DeviceCm(const DeviceCm&) = delete;
  DeviceCm& operator=(const DeviceCm&) = delete;

  bool Owns(provider::CmId id) const { return sides_.contains(id); }
  std::size_t size() const { return sides_.size(); }
  bool Listen(const Address& local) { return fabric_.listeners_.emplace(local, this).second; }
  void Unlisten(const Address& local) { fabric_.listeners_.erase(local); }
  void Connect(const provider::ConnectParams& params);
  void Accept(provider::CmId id, const provider::AcceptParams& params);
  void Reject(provider::CmId id, Detail detail, const provider::Bytes& private_data);
  void Confirm(provider::CmId id);
  void Prepared(provider::CmId id, const Status& status);
  void Abort(provider::CmId id);
  void Disconnect(provider::CmId id);

 private:
  struct Side {
    std::uint64_t pair = 0;
    int index = 0;
  };
  using Pair = Fabric::Pair;
  using Stage = Fabric::Stage;

  Pair* Find(provider::CmId id, int* index);
  // Calls f(manager of the end, id) after a delay, if the pair exists and its end `index` is still in use.
  template <typename F>
  void Later(std::uint64_t pair, int index, F f);
  void Drop(std::uint64_t pair, int index);
  void Withdraw(std::uint64_t pair, int index, DisconnectReason reason);

  Fabric& fabric_;
  provider::CmSink& sink_;
  provider::soft::InboundIds& ids_;
  const std::string adapter_;
  std::map<provider::CmId, Side> sides_;
};

}  // namespace nd::sim
