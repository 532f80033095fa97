// SPDX-License-Identifier: Apache-2.0
#include "client-lib/core/carriers.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "client-lib/core/message.h"

namespace nd {
namespace client {
namespace {

// Never destroyed, because libraries register at program start and may be asked at program end.
struct Carriers {
  std::mutex mutex;
  std::map<std::string, OpenCarrier, std::less<>> open;
};
Carriers& TheCarriers() {
  static auto* const carriers = new Carriers;
  return *carriers;
}

}  // namespace

OpenCarrier FindCarrier(std::string_view name) {
  Carriers& carriers = TheCarriers();
  std::lock_guard lock(carriers.mutex);
  const auto found = carriers.open.find(name);
  return found == carriers.open.end() ? nullptr : found->second;
}

Status SessionEnded(StatusCode code, const std::string& why) {
  const std::string text =
      why.empty() ? "the broker ended the session" : "the broker ended the session: " + why;
  switch (code) {
    case StatusCode::kAccessDenied:
      return {code, text, Detail::kPolicy};
    case StatusCode::kInsufficientResources:
      return {code, text, Detail::kQuota};
    default:
      return {StatusCode::kDeviceRemoved, text, Detail::kBrokerUnreachable};
  }
}

}  // namespace client

void RegisterCarrier(std::string_view name, OpenCarrier open) {
  client::Carriers& carriers = client::TheCarriers();
  std::lock_guard lock(carriers.mutex);
  carriers.open.insert_or_assign(std::string(name), open);
}

}  // namespace nd
