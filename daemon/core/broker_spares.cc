// SPDX-License-Identifier: Apache-2.0
// Spares: objects that a client may make without waiting for the answer (spares.h).
#include <utility>

#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"
#include "provider/counters.h"
#include "session/operations.h"

namespace nd::core {
namespace {

constexpr Resource ResourceOf(SpareKind kind) {
  return kind == SpareKind::kQueuePair ? Resource::kQueuePairs : Resource::kConnectors;
}

// A slot whose page the client has already, so that no descriptor is needed for it.
std::optional<std::uint32_t> TakeKnownSlot(Session& s) {
  if (s.free_slots.empty() && s.next_slot % provider::kCounterSlotsPerPage == 0) return std::nullopt;
  return s.TakeSlot();
}

}  // namespace

void Broker::Impl::OfferSpares(Session& s) {
  if (board_ == nullptr || (s.who().features & session::kClientSpares) == 0) return;
  for (const SpareKind kind : kSpareKinds) {
    SparesOfKind& spares = s.SparesOf(kind);
    for (std::uint32_t i = 0; i < spares.size(); ++i) {
      Spare& spare = spares[i];
      if (spare.charge) continue;
      // Near the limit offers would be made and withdrawn in turn.
      std::optional<std::uint32_t> limit = LimitOf(policy_.LimitsOf(s.who()), ResourceOf(kind));
      if (limit) limit = *limit / 2;
      std::optional<Quota::Token> charge =
          quota_.Charge(UserOf(s.who()), ResourceOf(kind), limit, nullptr, /*spare=*/true);
      if (!charge || objects_.room() / 2 <= spares_) break;
      if (kind == SpareKind::kQueuePair) {
        const std::optional<std::uint32_t> slot = TakeKnownSlot(s);
        if (!slot) break;
        spare.counter_slot = *slot;
      }
      spare.charge = std::move(*charge);
      ++spares_;
      have_spares_.insert({UserOf(s.who()), s.id});
      const std::uint32_t value = kind == SpareKind::kQueuePair ? spare.counter_slot + 1 : 1;
      if (board_->Offer(s.id, kind, i, value)) continue;
      ReleaseSpare(s, kind, spare);
      return;
    }
  }
}

void Broker::Impl::WithdrawSpares(std::optional<std::uint32_t> uid) {
  // Only sessions of that user, so that a user who is refused again and again costs nobody else anything.
  auto at = uid ? have_spares_.lower_bound({*uid, SessionId{}}) : have_spares_.begin();
  for (; at != have_spares_.end() && (!uid || at->first == *uid); ++at) {
    const SessionId id = at->second;
    Session& s = SessionOf(id);
    for (const SpareKind kind : kSpareKinds) {
      SparesOfKind& spares = s.SparesOf(kind);
      for (std::uint32_t i = 0; i < spares.size(); ++i) {
        if (spares[i].charge && board_->Withdraw(id, kind, i)) ReleaseSpare(s, kind, spares[i]);
      }
    }
  }
}

void Broker::Impl::ReleaseSpare(Session& s, SpareKind kind, Spare& spare) {
  spare.charge.Release();
  ND_CORE_CHECK(spares_ > 0);
  --spares_;
  if (kind == SpareKind::kQueuePair) s.free_slots.insert(spare.counter_slot);
}

void Broker::Impl::ReleaseSpares(Session& s) {
  have_spares_.erase({UserOf(s.who()), s.id});
  for (const SpareKind kind : kSpareKinds) {
    for (Spare& spare : s.SparesOf(kind)) {
      if (spare.charge) ReleaseSpare(s, kind, spare);
    }
  }
}

Spare* Broker::Impl::FindSpare(Session& s, SpareKind kind, std::uint32_t number) {
  SparesOfKind& spares = s.SparesOf(kind);
  if (number == 0 || number > spares.size()) return nullptr;
  Spare& spare = spares[number - 1];
  return spare.charge ? &spare : nullptr;
}

OpenedAdapter* Broker::Impl::AdapterFor(Session& s, Pending& p, Handle handle, SpareKind kind, Spare* spare) {
  if (spare == nullptr) return UsableAdapter(s, p, handle);
  OpenedAdapter* const adapter = FindOwn<OpenedAdapter>(s, handle);
  if (adapter == nullptr) {
    ReleaseSpare(s, kind, *spare);
    Finish(s.id, p, BadHandle());
  }
  return adapter;
}

void Broker::Impl::NameObject(Session& s, Object& object, OpId made_by) {
  // An id that the session has used before may name an older object that still lives.
  if (Handle::NameOf(made_by) && s.made_by.emplace(made_by, object.handle).second) object.made_by = made_by;
}

}  // namespace nd::core
