// SPDX-License-Identifier: Apache-2.0
// The requests between ibv_wr_start and ibv_wr_complete, as a chain for ibv_post_send. Pure, apart from
// reading inline data.
//
// Thread rule: one thread at a time.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nd::verbs_lib {

class SendBatch {
 public:
  // The limits of one request.
  struct Limits {
    std::uint32_t sges = 0, inline_bytes = 0;
  };
  explicit SendBatch(Limits limits) : limits_(limits) {}

  void Clear();
  // Begins a request. The caller fills the members that its opcode needs. The reference is valid until the
  // next Begin().
  ibv_send_wr& Begin(ibv_wr_opcode opcode, std::uint64_t id, unsigned flags);
  // The next four are for the request that was begun last. Without one, or beyond the limits, the batch
  // fails.
  void SetSges(std::span<const ibv_sge> pieces);
  void SetInline(std::span<const ibv_data_buf> pieces);
  void SetAddress(ibv_ah* handle, std::uint32_t number, std::uint32_t qkey);
  void Fail(int error);

  // 0, or the errno of the first mistake.
  int error() const { return error_; }
  // The chain, valid until Clear(). Null when it is empty.
  ibv_send_wr* Chain();

 private:
  struct Place {
    std::size_t first_sge = 0, first_byte = 0;
    bool is_inline = false;
  };

  const Limits limits_;
  int error_ = 0;
  std::vector<ibv_send_wr> requests_;
  std::vector<Place> places_;
  std::vector<ibv_sge> sges_;
  std::vector<std::byte> bytes_;
};

}  // namespace nd::verbs_lib
