// SPDX-License-Identifier: Apache-2.0
// Verbs in the daemon: [verbs], and its connection manager. A build without rdma-core reads the table too and
// makes no manager.
#pragma once

#include "provider/daemon_provider.h"
#include "provider/verbs/cm/options.h"

namespace nd::provider::verbs {

class VerbsProvider final : public DaemonProvider {
 public:
  const Options& options() const { return options_; }

  std::vector<std::string_view> tables() const override { return {"verbs"}; }
  void Read(std::string_view table, OptionTable& options) override;
  Result<std::unique_ptr<ConnectionManager>> Make(EventLoop& loop, CmSink& sink) const override;

 private:
  Options options_;
};

}  // namespace nd::provider::verbs
