// SPDX-License-Identifier: Apache-2.0
// The keys of verbs with their ranges.
#include "provider/verbs/cm/verbs_provider.h"

#ifdef NDBROKER_HAVE_VERBS
#include "provider/verbs/cm/make_verbs_cm.h"
#endif

namespace nd::provider::verbs {

void VerbsProvider::Read(std::string_view table, OptionTable& options) {
  if (table != "verbs") return;
  options.Bool("enabled", &options_.enabled);
  options.Texts("devices", [&](const std::string& name) -> std::string {
    options_.devices.push_back(name);
    return {};
  });
  options.Number("max-inbound-read-limit", 0, 255, &options_.max_inbound_read_limit);
  options.Number("max-outbound-read-limit", 0, 255, &options_.max_outbound_read_limit);
}

Result<std::unique_ptr<ConnectionManager>> VerbsProvider::Make([[maybe_unused]] EventLoop& loop,
                                                               [[maybe_unused]] CmSink& sink) const {
#ifdef NDBROKER_HAVE_VERBS
  if (options_.enabled) return MakeVerbsCm(options_, loop, sink);
#endif
  return std::unique_ptr<ConnectionManager>();
}

}  // namespace nd::provider::verbs
