// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/cm/networkdirect_provider_win.h"

#include "nd-provider/ndspi_win.h"

#include <bit>
#include <memory>
#include <thread>
#include <utility>

#include "base/os/access_win.h"
#include "provider/networkdirect/cm/clerk.h"
#include "provider/networkdirect/cm/prober_win.h"

namespace nd::provider::networkdirect {
namespace {

// A DLL may start a device.
constexpr std::chrono::milliseconds kProbeTime{30000};

// The adapters of one DLL, with names behind `last`. A DLL without a usable adapter is one with a problem, so
// that operators see the reason.
void Describe(const CatalogueEntry& entry, const Result<std::vector<AdapterInfo>>& probed,
              std::vector<FoundAdapter>* all) {
  const auto add = [&](FoundAdapter adapter) {
    adapter.description.info.name = "nd" + std::to_string(all->size());
    adapter.description.info.provider = kName;
    all->push_back(std::move(adapter));
  };
  if (!probed.ok() || probed->empty()) {
    FoundAdapter adapter;
    adapter.description.problem =
        probed.ok() ? Status(StatusCode::kDeviceNotReady, entry.dll + " has no adapter") : probed.status();
    return add(std::move(adapter));
  }
  for (const AdapterInfo& info : *probed) {
    FoundAdapter adapter;
    adapter.description.info = info;
    adapter.description.reserve_ports = true;
    adapter.description.shares_listening_ports = false;
    adapter.dll = entry.dll;
    adapter.class_id = entry.class_id;
    add(std::move(adapter));
  }
}

// The clerk, and the thread that asks the DLLs once, at the start.
class ProbingClerk final : public Clerk {
 public:
  ProbingClerk(EventLoop& loop, CmSink& sink, std::vector<CatalogueEntry> entries) : Clerk(sink) {
    thread_ = std::thread([this, &loop, alive = std::weak_ptr(alive_), entries = std::move(entries)] {
      std::vector<FoundAdapter> all;
      for (const CatalogueEntry& entry : entries) Describe(entry, Probe(entry, kProbeTime), &all);
      loop.Post([this, alive, all = std::move(all)]() mutable {
        if (!alive.expired()) SetAdapters(std::move(all));
      });
    });
  }
  ~ProbingClerk() override { thread_.join(); }

 private:
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>();
  std::thread thread_;
};

}  // namespace

void NetworkDirectProvider::Read(std::string_view table, OptionTable& options) {
  if (table != "networkdirect") return;
  options.Bool("enabled", &enabled_);
  std::string dll, class_text;
  const bool has_dll = options.String("dll", &dll), has_class = options.String("class", &class_text);
  GUID id = spi::kProviderClass;
  if (has_class && ::CLSIDFromString(os::WidePath(class_text).c_str(), &id) != S_OK) {
    options.Refuse("class", "\"class\" in [networkdirect] is \"" + class_text +
                                "\"; it must be a class id such as {6b2f4c0e-21d7-4b0a-9e55-6e6462726b01}");
  }
  if (has_class && !has_dll) options.Refuse("class", "\"class\" in [networkdirect] needs \"dll\"");
  if (has_dll) only_ = CatalogueEntry{dll, std::bit_cast<ClassId>(id)};
}

Result<std::unique_ptr<ConnectionManager>> NetworkDirectProvider::Make(EventLoop& loop, CmSink& sink) const {
  if (!enabled_) return std::unique_ptr<ConnectionManager>();
  std::vector<CatalogueEntry> entries = only_ ? std::vector{*only_} : ReadCatalogue();
  return std::unique_ptr<ConnectionManager>(std::make_unique<ProbingClerk>(loop, sink, std::move(entries)));
}

}  // namespace nd::provider::networkdirect
