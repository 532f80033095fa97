// SPDX-License-Identifier: Apache-2.0
// Keeps the order of messages and hand-overs on the two channels of a client.
#include "daemon/service/client_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "session/codec.h"
#include "session/weight.h"

namespace nd::service {
namespace {

template <typename Record>
std::vector<std::byte> Encoded(const Record& record) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  return {bytes, bytes + sizeof record};
}

Status TooFarBehind() {
  return {StatusCode::kInsufficientResources,
          "the client does not read its stream: too much is waiting for it"};
}

constexpr std::size_t kMaxWaiting = 65536;  // Messages behind a hand-over that is not acknowledged.

}  // namespace

bool ClientSession::TokenIs(std::string_view token) const {
  if (token.size() != token_.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < token_.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(token[i]) ^ std::to_integer<unsigned char>(token_[i])));
  }
  return difference == 0;
}

Status ClientSession::Send(session::ServerMessage message) {
  if (stream == nullptr) return Status::Ok();
  if (Status status = SendHeld(nullptr); !status.ok()) return status;
  if (!waiting_.empty()) return Wait(std::move(message));
  return stream->Send(message) ? Status::Ok() : TooFarBehind();
}

Status ClientSession::Send(const session::Completion& completion) {
  if (stream == nullptr) return Status::Ok();
  if (held_ && completion.reply.hand_off == held_->id) return SendHeld(&completion);
  if (Status status = SendHeld(nullptr); !status.ok()) return status;
  if (!waiting_.empty()) return Wait(session::ServerMessage(completion));
  return stream->Send(completion) ? Status::Ok() : TooFarBehind();
}

void ClientSession::PendingOperations::Add(core::OpId id, const PendingOperation& operation) {
  if (!spare_) {
    operations_.emplace(id, operation);
    return;
  }
  spare_.key() = id;
  spare_.mapped() = operation;
  operations_.insert(std::move(spare_));
}

std::optional<ClientSession::PendingOperation> ClientSession::PendingOperations::Take(core::OpId id) {
  Table::node_type node = operations_.extract(id);
  if (!node) return std::nullopt;
  spare_ = std::move(node);
  return spare_.mapped();
}

Status ClientSession::Send(provider::HandOff hand_off,
                           const std::function<void(std::vector<UniqueFd>)>& close) {
  InFlight::Charge charge(in_flight_, peer().uid, hand_off.fds.size());
  Datagram datagram{Encoded(hand_off.record), std::move(hand_off.fds), hand_off.record.id, close,
                    std::move(charge)};
  if (!takes_together || held_ || !waiting_.empty()) return Send(std::move(datagram));
  held_.emplace(std::move(datagram));
  return Status::Ok();
}

Status ClientSession::SendPage(std::uint32_t slot, UniqueFd page) {
  provider::CountersPageRecord record;
  record.id = ++last_page_id_;
  record.first_slot = CountersPages::FirstSlot(slot);
  record.slot_count = provider::kCounterSlotsPerPage;
  if (CountersPages::HasRegions(slot)) provider::RegionRowsOf(record) = provider::kRegionRows;
  Datagram datagram{Encoded(record), {}, record.id, nullptr, InFlight::Charge(in_flight_, peer().uid, 1)};
  datagram.fds.push_back(std::move(page));
  return Send(std::move(datagram));
}

Status ClientSession::SendHeld(const session::Completion* completion) {
  if (!held_) return Status::Ok();
  Datagram datagram = *std::exchange(held_, std::nullopt);
  Status status = TrySend(datagram, completion);
  if (!(status == StatusCode::kDeviceBusy)) return status;
  status = Wait(std::move(datagram));
  return status.ok() && completion != nullptr ? Wait(session::ServerMessage(*completion)) : status;
}

Status ClientSession::Send(Datagram datagram) {
  if (Status status = SendHeld(nullptr); !status.ok()) return status;
  if (waiting_.empty()) {
    Status status = TrySend(datagram);
    if (!(status == StatusCode::kDeviceBusy)) return status;
  }
  return Wait(std::move(datagram));
}

std::size_t ClientSession::BytesOf(const Item& item) {
  const auto* message = std::get_if<session::ServerMessage>(&item);
  return sizeof(Item) +
         (message != nullptr ? session::HeapBytes(*message) : std::get<Datagram>(item).record.capacity());
}

Status ClientSession::Wait(Item item) {
  if (waiting_.size() >= kMaxWaiting) return TooFarBehind();
  waiting_bytes_ += BytesOf(item);
  waiting_.push_back(std::move(item));
  return Status::Ok();
}

Status ClientSession::TrySend(Datagram& datagram, const session::Completion* completion) {
  std::array<int, kMaxFdsPerMessage> numbers{};
  if (datagram.fds.size() > numbers.size()) {
    return {StatusCode::kInvalidParameter, "too many descriptors in a message"};
  }
  std::ranges::transform(datagram.fds, numbers.begin(), &UniqueFd::get);
  const std::span<const int> fds(numbers.data(), datagram.fds.size());
  Status status;
  if (completion == nullptr) {
    status = lane_->Send(datagram.id, datagram.record, fds, datagram.charge);
  } else {
    std::vector<std::byte> message;
    session::Append(*completion, &message);
    status = lane_->SendTogether(datagram.id, datagram.record, fds, datagram.charge, message);
  }
  // The copies of the broker must be closed: they would hide the end of the client from the peer.
  if (status.ok() && datagram.close) datagram.close(std::move(datagram.fds));
  if (status.ok()) datagram.fds.clear();
  return status;
}

Status ClientSession::Flush() {
  while (!waiting_.empty()) {
    const std::size_t bytes = BytesOf(waiting_.front());
    if (auto* datagram = std::get_if<Datagram>(&waiting_.front())) {
      Status status = TrySend(*datagram);
      if (status == StatusCode::kDeviceBusy) return Status::Ok();
      if (!status.ok()) return status;
    } else if (stream != nullptr && !stream->Send(std::get<session::ServerMessage>(waiting_.front()))) {
      return TooFarBehind();
    }
    waiting_.pop_front();
    waiting_bytes_ -= bytes;
  }
  return Status::Ok();
}

}  // namespace nd::service
