// SPDX-License-Identifier: Apache-2.0
// What the administrator takes out of use for a while: ports, and the whole broker for whatever is new.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/impl.h"

namespace nd::core {

Status Broker::Impl::Draining() const {
  if (!draining_) return {};
  return {StatusCode::kDeviceNotReady,
          "The broker is draining: it takes nothing new. Ask its administrator, or use another host.",
          Detail::kPaused};
}

void Broker::Impl::On(const SetDraining& event) {
  if (draining_ == event.drain) return;
  draining_ = event.drain;
  Note(Notice::Level::kWarning, draining_ ? "broker.draining" : "broker.resumed", "",
       draining_ ? "Nothing new is taken; what is established lives on." : "New work is taken again.");
}

std::vector<PortKey> Broker::Impl::KeysOf(const Address& local) const {
  std::vector<PortKey> keys;
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (!adapters_[no].present || !adapters_[no].description.problem.ok()) continue;
    if (!CheckLocalAddress(adapters_[no].description.info, local, /*allow_unspecified=*/true).ok()) continue;
    keys.push_back(PortKey::Of(no, local));
  }
  return keys;
}

Status Broker::Impl::CheckReserve(const Address& local) const {
  if (!local.well_formed() || local.port() == 0) {
    return {StatusCode::kInvalidParameter, "A reservation needs an IPv4 or IPv6 address with a port."};
  }
  const std::vector<PortKey> keys = KeysOf(local);
  if (keys.empty()) {
    return {StatusCode::kInvalidAddress, "No adapter has the address " + local.IpToString() + "."};
  }
  for (const PortKey& key : keys) {
    if (Status taken = ports_.CheckReserve(key); !taken.ok()) return taken;
  }
  return {};
}

Status Broker::Impl::CheckRelease(const Address& local) const {
  for (const PortKey& key : KeysOf(local)) {
    if (ports_.reservations().contains(key)) return {};
  }
  return {StatusCode::kInvalidHandle, "There is no reservation of " + local.ToString() + "."};
}

void Broker::Impl::On(const ReservePort& event) {
  if (Status bad = CheckReserve(event.local); !bad.ok()) {
    Emit(ReserveDone{event.request, std::move(bad)});
    return;
  }
  const std::uint64_t request = next_sequence_++;
  Reserving& reserving = reserving_[request];
  reserving.event = event;
  reserving.open = 1;  // This function itself.
  for (const PortKey& key : KeysOf(event.local)) {
    const EndpointId endpoint = Keep(key, request);
    ports_.Reserve(key, {event.uid, event.comment, endpoint, 0});
    reserving.ports.emplace_back(key, endpoint);
    if (endpoint != EndpointId{}) ++reserving.open;
  }
  AnswerReserve(request, {});
}

void Broker::Impl::AnswerReserve(std::uint64_t request, const Status& status) {
  Reserving& reserving = reserving_.at(request);
  if (reserving.status.ok()) reserving.status = status;
  if (--reserving.open > 0) return;
  const Reserving done = std::move(reserving);
  reserving_.erase(request);
  const ReservePort& event = done.event;
  if (!done.status.ok()) {
    for (const auto& [key, endpoint] : done.ports) {
      const auto left = ports_.reservations().find(key);
      if (left != ports_.reservations().end() && left->second.endpoint == endpoint) DropReservation(key);
    }
  } else {
    Note(Notice::Level::kInfo, "port.reserved", event.local.ToString(),
         (event.uid ? "For uid " + std::to_string(*event.uid) : std::string("For nobody")) +
             (event.comment.empty() ? "." : ": " + event.comment));
  }
  Emit(ReserveDone{event.request, done.status});
}

bool Broker::Impl::DropReservation(const PortKey& key) {
  const std::optional<PortReservation> reservation = ports_.Unreserve(key);
  if (!reservation) return false;
  LetGo(reservation->endpoint);
  return true;
}

void Broker::Impl::On(const ReleasePort& event) {
  bool released = false;
  for (const PortKey& key : KeysOf(event.local)) released |= DropReservation(key);
  if (released) Note(Notice::Level::kInfo, "port.released", event.local.ToString(), "By the administrator.");
}

}  // namespace nd::core
