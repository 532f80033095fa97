// SPDX-License-Identifier: Apache-2.0
// Connects the journal with the timers of the loop and the state of holders in /proc.
#include "daemon/state/lease_keeper.h"

#include <cstdint>
#include <map>
#include <tuple>

#include "daemon/ops/process.h"
#include "daemon/state/journal_file.h"

namespace nd::state {
namespace {

Journal::Options JournalOptions(const LeaseKeeper::Options& options) {
  Journal::Options out;
  out.boot = BootId();
  out.tell = options.tell;
  return out;
}

}  // namespace

bool MayComeBack(const core::Process& holder) {
  return holder.pid == 0 || holder.born == 0 || ops::BornOf(holder.pid) == holder.born;
}

LeaseKeeper::LeaseKeeper(EventLoop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      journal_(std::make_unique<JournalFile>(options_.directory), JournalOptions(options_)) {}

LeaseKeeper::~LeaseKeeper() {
  if (timer_) loop_.Cancel(*timer_);
}

std::vector<core::Lease> LeaseKeeper::Start(const std::function<bool(const std::string&)>& adapter_is_there) {
  // A process may hold thousands of ports, and no client is served before the last lease was judged.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, bool> judged;
  const auto may_come_back = [&judged](const core::Process& holder) {
    const auto [entry, fresh] = judged.try_emplace({holder.uid, holder.pid, holder.born}, false);
    if (fresh) entry->second = MayComeBack(holder);
    return entry->second;
  };
  auto leases = journal_.Start(loop_.clock().Now(), [&](const core::Lease& lease) {
    return options_.grace > Duration::zero() && adapter_is_there(lease.adapter) &&
           may_come_back(lease.holder);
  });
  ArmRetry();
  return leases;
}

void LeaseKeeper::Taken(const core::Lease& lease) {
  journal_.Taken(loop_.clock().Now(), lease);
  ArmRetry();
}

void LeaseKeeper::Freed(const std::string& adapter, const Address& local) {
  journal_.Freed(loop_.clock().Now(), adapter, local);
  ArmRetry();
}

void LeaseKeeper::Stop() {
  journal_.Stop(loop_.clock().Now());
}

void LeaseKeeper::ArmRetry() {
  const std::optional<Time> due = journal_.retry_at();
  if (timer_ || !due) return;
  timer_ = loop_.At(*due, [this] {
    timer_.reset();
    journal_.Retry(loop_.clock().Now());
    ArmRetry();
  });
}

}  // namespace nd::state
