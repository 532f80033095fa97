// SPDX-License-Identifier: Apache-2.0
// Keeps two channels to one client in one order.
#include "daemon/service/session.h"

#include <cstring>

namespace nd::service {
namespace {

template <typename Record>
std::vector<std::byte> BytesOf(const Record& record) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  return {bytes, bytes + sizeof record};
}

Status TooFarBehind() {
  return {StatusCode::kInsufficientResources,
          "the client does not read its stream: too much is waiting for it"};
}

constexpr std::size_t kMaxWaiting = 65536;  // Behind a hand-over that is not acknowledged; a second's worth.

}  // namespace

bool Session::TokenIs(std::string_view token) const {
  if (token.size() != token_.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < token_.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(token[i]) ^ std::to_integer<unsigned char>(token_[i])));
  }
  return difference == 0;
}

Status Session::Send(pb::ServerMessage message) {
  if (stream == nullptr) return Status::Ok();
  if (!waiting_.empty()) {
    if (waiting_.size() >= kMaxWaiting) return TooFarBehind();
    waiting_.emplace_back(std::move(message));
    return Status::Ok();
  }
  return stream->Send(std::move(message)) ? Status::Ok() : TooFarBehind();
}

Status Session::Send(provider::HandOff hand_off, const std::function<void(std::vector<UniqueFd>)>& close) {
  return Send(Datagram{BytesOf(hand_off.record), std::move(hand_off.fds), hand_off.record.id, close});
}

Status Session::ProvidePage(std::uint32_t slot) {
  if (pages.Has(slot)) return Status::Ok();
  Result<UniqueFd> page = pages.Make(slot);
  if (!page.ok()) return page.status();
  provider::CountersPageRecord record;
  record.id = ++last_page_id_;
  record.first_slot = CountersPages::FirstSlot(slot);
  record.slot_count = provider::kCounterSlotsPerPage;
  if (CountersPages::HasRegions(slot)) provider::RegionRowsOf(record) = provider::kRegionRows;
  Datagram datagram{BytesOf(record), {}, record.id, nullptr};
  datagram.fds.push_back(std::move(page.value()));
  return Send(std::move(datagram));
}

Status Session::Send(Datagram datagram) {
  if (waiting_.size() >= kMaxWaiting) return TooFarBehind();
  if (waiting_.empty()) {
    Status status = TrySend(datagram);
    if (!(status == StatusCode::kDeviceBusy)) return status;
  }
  waiting_.emplace_back(std::move(datagram));
  return Status::Ok();
}

Status Session::TrySend(Datagram& datagram) {
  std::vector<int> fds;
  for (const UniqueFd& fd : datagram.fds) fds.push_back(fd.get());
  Status status = lane_->Send(datagram.id, datagram.record, fds);
  // Our copies must not outlive this: one would keep the peer from learning of the client's death.
  if (status.ok() && datagram.close) datagram.close(std::move(datagram.fds));
  if (status.ok()) datagram.fds.clear();
  return status;
}

Status Session::Flush() {
  while (!waiting_.empty()) {
    if (auto* datagram = std::get_if<Datagram>(&waiting_.front())) {
      Status status = TrySend(*datagram);
      if (status == StatusCode::kDeviceBusy) return Status::Ok();
      if (!status.ok()) return status;
    } else if (stream != nullptr && !stream->Send(std::move(std::get<pb::ServerMessage>(waiting_.front())))) {
      return TooFarBehind();
    }
    waiting_.pop_front();
  }
  return Status::Ok();
}

}  // namespace nd::service
