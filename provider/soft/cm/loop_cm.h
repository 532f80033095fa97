// SPDX-License-Identifier: Apache-2.0
// Connections between two applications of this host, over a shared memory segment.
//
// Loop thread only. Commands for ids it does not own are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "provider/cm.h"
#include "provider/soft/cm/inbound_ids.h"

namespace nd::provider::soft {

class LoopCm {
 public:
  LoopCm(CmSink& sink, InboundIds& ids) : sink_(sink), ids_(ids) {}
  LoopCm(const LoopCm&) = delete;
  LoopCm& operator=(const LoopCm&) = delete;

  bool Owns(CmId id) const { return sides_.contains(id); }
  std::uint32_t handshakes() const;

  // `adapter` is the one that has the remote address.
  void Connect(const ConnectParams& params, const std::string& adapter);
  void Accept(CmId id, const AcceptParams& params);
  void Reject(CmId id, Detail detail, const Bytes& private_data);
  void Confirm(CmId id);
  void Abort(CmId id);
  // INVALID_PARAMETER: not established, or taken already.
  Result<HandOff> TakeHandOff(CmId id);

 private:
  enum class Stage : std::uint8_t { kIncoming, kReplied, kEstablished };
  struct Pair {
    Stage stage = Stage::kIncoming;
    CmId active{}, passive{};
    ReadLimits offer, granted;  // Offered by the active side; granted by the passive side.
    std::uint32_t active_uid = 0, active_pid = 0, passive_uid = 0, passive_pid = 0;
    bool extensions = false;  // Offered by the active side; after Accept: by both.
    HandOff active_hand_off, passive_hand_off;
  };

  std::shared_ptr<Pair> Find(CmId id) const;
  Status MakeSegment(Pair& pair);
  void Forget(const Pair& pair);

  CmSink& sink_;
  InboundIds& ids_;
  std::map<CmId, std::shared_ptr<Pair>> sides_;  // Both ids of a pair map to it.
};

}  // namespace nd::provider::soft
