// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/send_batch.h"

#include <cerrno>

namespace nd::verbs_lib {

void SendBatch::Clear() {
  error_ = 0;
  requests_.clear();
  places_.clear();
  sges_.clear();
  bytes_.clear();
}

void SendBatch::Fail(int error) {
  if (error_ == 0) error_ = error;
}

ibv_send_wr& SendBatch::Begin(ibv_wr_opcode opcode, std::uint64_t id, unsigned flags) {
  ibv_send_wr& request = requests_.emplace_back();
  places_.emplace_back();
  request.opcode = opcode;
  request.wr_id = id;
  // SetInline() decides about inline data.
  request.send_flags = flags & ~unsigned{IBV_SEND_INLINE};
  return request;
}

void SendBatch::SetSges(std::span<const ibv_sge> pieces) {
  if (requests_.empty() || pieces.size() > limits_.sges) return Fail(EINVAL);
  places_.back() = {.first_sge = sges_.size()};
  sges_.insert(sges_.end(), pieces.begin(), pieces.end());
  requests_.back().num_sge = static_cast<int>(pieces.size());
}

void SendBatch::SetInline(std::span<const ibv_data_buf> pieces) {
  std::size_t length = 0;
  for (const ibv_data_buf& piece : pieces) {
    if (piece.length > limits_.inline_bytes) return Fail(EINVAL);
    length += piece.length;
  }
  if (requests_.empty() || length > limits_.inline_bytes) return Fail(EINVAL);
  places_.back() = {.first_sge = sges_.size(), .first_byte = bytes_.size(), .is_inline = true};
  for (const ibv_data_buf& piece : pieces) {
    const auto* from = static_cast<const std::byte*>(piece.addr);
    bytes_.insert(bytes_.end(), from, from + piece.length);
  }
  // Its address is known when `bytes_` does not grow any more.
  sges_.push_back({.addr = 0, .length = static_cast<std::uint32_t>(length), .lkey = 0});
  requests_.back().num_sge = 1;
  requests_.back().send_flags |= IBV_SEND_INLINE;
}

void SendBatch::SetAddress(ibv_ah* handle, std::uint32_t number, std::uint32_t qkey) {
  if (requests_.empty()) return Fail(EINVAL);
  auto& to = requests_.back().wr.ud;
  to.ah = handle;
  to.remote_qpn = number;
  to.remote_qkey = qkey;
}

ibv_send_wr* SendBatch::Chain() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    ibv_send_wr& request = requests_[i];
    const Place& place = places_[i];
    request.next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
    request.sg_list = request.num_sge == 0 ? nullptr : &sges_[place.first_sge];
    if (place.is_inline) {
      sges_[place.first_sge].addr = reinterpret_cast<std::uintptr_t>(bytes_.data() + place.first_byte);
    }
  }
  return requests_.empty() ? nullptr : requests_.data();
}

}  // namespace nd::verbs_lib
