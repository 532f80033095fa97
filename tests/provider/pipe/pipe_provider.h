// SPDX-License-Identifier: Apache-2.0
// Tests only: the smallest provider (provider/README.md). Connections within one broker are Unix socket
// pairs; queue pairs send and receive, nothing else.
#pragma once

#include "provider/daemon_provider.h"
#include "provider/registry_qp.h"

namespace nd::provider::pipe {

inline constexpr Transport kTransport{0x70697065};

// Reads [pipe] with the keys `enabled` and `adapter`.
class PipeProvider final : public DaemonProvider {
 public:
  std::vector<std::string_view> tables() const override { return {"pipe"}; }
  void Read(std::string_view table, OptionTable& options) override;
  Result<std::unique_ptr<ConnectionManager>> Make(EventLoop& loop, CmSink& sink) const override;

 private:
  bool enabled_ = false;
  std::string adapter_ = "pipe0";
};

Result<std::shared_ptr<Device>> MakePipeDevice(const AdapterInfo& adapter, const DeviceOptions& options);

}  // namespace nd::provider::pipe
