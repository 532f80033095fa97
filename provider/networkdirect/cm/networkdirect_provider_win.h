// SPDX-License-Identifier: Apache-2.0
// Adapters of Network Direct in the daemon: [networkdirect], and the clerk over the adapters that its probes
// find. docs/windows.md has the keys.
#pragma once

#include <optional>
#include <string>

#include "provider/daemon_provider.h"
#include "provider/networkdirect/cm/catalogue_win.h"

namespace nd::provider::networkdirect {

class NetworkDirectProvider final : public DaemonProvider {
 public:
  std::vector<std::string_view> tables() const override { return {"networkdirect"}; }
  void Read(std::string_view table, OptionTable& options) override;
  Result<std::unique_ptr<ConnectionManager>> Make(EventLoop& loop, CmSink& sink) const override;

 private:
  bool enabled_ = false;
  std::optional<CatalogueEntry> only_;  // In place of the catalogue.
};

}  // namespace nd::provider::networkdirect
