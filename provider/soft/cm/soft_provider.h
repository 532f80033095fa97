// SPDX-License-Identifier: Apache-2.0
// Soft in the daemon: [[adapter]], its keys in [limits] and [timeouts], and its connection manager.
#pragma once

#include "provider/daemon_provider.h"
#include "provider/soft/cm/options.h"

namespace nd::provider::soft {

class SoftProvider final : public DaemonProvider {
 public:
  const Options& options() const { return options_; }

  std::vector<std::string_view> lists() const override { return {"adapter"}; }
  void Read(std::string_view table, OptionTable& options) override;
  std::vector<Flag> flags() const override;
  Result<Change> Apply(std::string_view flag, const std::vector<std::string>& values) override;
  std::uint64_t handshake_descriptors() const override { return options_.max_half_open; }
  void KeepListeners(os::KeptSockets* kept) override { kept_ = kept; }
  Result<std::unique_ptr<ConnectionManager>> Make(EventLoop& loop, CmSink& sink) const override;

 private:
  Options options_;
  os::KeptSockets* kept_ = nullptr;
};

}  // namespace nd::provider::soft
