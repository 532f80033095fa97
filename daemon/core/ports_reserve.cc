// SPDX-License-Identifier: Apache-2.0
// Ports that the administrator reserves.
#include <string>
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/ports.h"

namespace nd::core {

std::vector<PortKey> Ports::KeysOf(const Address& local) const {
  std::vector<PortKey> keys;
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (!adapters_[no].present || !adapters_[no].description.problem.ok()) continue;
    if (adapters_[no].description.network != 0) continue;  // Other networks have ports of their own.
    if (!CheckLocalAddress(adapters_[no].description.info, local, /*allow_unspecified=*/true).ok()) continue;
    keys.push_back(PortKey::Of(no, local));
  }
  return keys;
}

Status Ports::CheckReserve(const Address& local) const {
  if (!local.well_formed() || local.port() == 0) {
    return {StatusCode::kInvalidParameter, "A reservation needs an IPv4 or IPv6 address with a port."};
  }
  const std::vector<PortKey> keys = KeysOf(local);
  if (keys.empty()) {
    return {StatusCode::kInvalidAddress, "No adapter has the address " + local.IpToString() + "."};
  }
  for (const PortKey& key : keys) {
    if (Status taken = space_.CheckReserve(key); !taken.ok()) return taken;
  }
  return {};
}

Status Ports::CheckRelease(const Address& local) const {
  for (const PortKey& key : KeysOf(local)) {
    if (space_.reservations().contains(key)) return {};
  }
  return {StatusCode::kInvalidHandle, "There is no reservation of " + local.ToString() + "."};
}

void Ports::Reserve(const ReservePort& event) {
  if (Status bad = CheckReserve(event.local); !bad.ok()) {
    output_.Emit(ReserveDone{event.request, std::move(bad)});
    return;
  }
  const std::uint64_t request = next_request_++;
  Reserving& reserving = reserving_[request];
  reserving.event = event;
  reserving.open = 1;  // One for the call of this function itself.
  for (const PortKey& key : KeysOf(event.local)) {
    const EndpointId endpoint = HoldIdle(key, request);
    space_.Reserve(key, {event.uid, event.comment, endpoint, 0});
    reserving.ports.emplace_back(key, endpoint);
    if (endpoint != EndpointId{}) ++reserving.open;
  }
  AnswerReserve(request, {});
}

void Ports::AnswerReserve(std::uint64_t request, const Status& status) {
  Reserving& reserving = reserving_.at(request);
  if (reserving.status.ok()) reserving.status = status;
  if (--reserving.open > 0) return;
  const Reserving done = std::move(reserving);
  reserving_.erase(request);
  const ReservePort& event = done.event;
  if (!done.status.ok()) {
    for (const auto& [key, endpoint] : done.ports) {
      const auto left = space_.reservations().find(key);
      if (left != space_.reservations().end() && left->second.endpoint == endpoint) DropReservation(key);
    }
  } else {
    output_.Note(Notice::Level::kInfo, "port.reserved", event.local.ToString(),
                 (event.uid ? "For uid " + std::to_string(*event.uid) : std::string("For nobody")) +
                     (event.comment.empty() ? "." : ": " + event.comment));
  }
  output_.Emit(ReserveDone{event.request, done.status});
}

bool Ports::DropReservation(const PortKey& key) {
  const std::optional<PortReservation> reservation = space_.Unreserve(key);
  if (!reservation) return false;
  LetGo(reservation->endpoint);
  return true;
}

void Ports::DropReservationsOf(AdapterNo adapter) {
  std::vector<PortKey> reserved;
  for (const auto& [key, reservation] : space_.reservations()) {
    if (key.adapter == adapter) reserved.push_back(key);
  }
  for (const PortKey& key : reserved) DropReservation(key);
}

void Ports::Release(const ReleasePort& event) {
  bool released = false;
  for (const PortKey& key : KeysOf(event.local)) released |= DropReservation(key);
  if (!released) return;
  output_.Note(Notice::Level::kInfo, "port.released", event.local.ToString(), "By the administrator.");
}

void Ports::Stop() {
  while (!reserving_.empty()) {
    const std::uint64_t request = reserving_.begin()->second.event.request;
    reserving_.erase(reserving_.begin());
    output_.Emit(ReserveDone{request, {StatusCode::kCanceled, "The broker stopped."}});
  }
  absl::erase_if(idle_asked_, [](const auto& asked) { return asked.second.request != 0; });
}

}  // namespace nd::core
