// SPDX-License-Identifier: Apache-2.0
// The list of providers, client half.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "provider/qp.h"

namespace nd::provider {

struct ClientProvider {
  std::string_view name;  // AdapterInfo::provider of its adapters.
  Result<std::shared_ptr<Device>> (*open)(const AdapterInfo& adapter, const DeviceOptions& options);
};

// Every provider of this build.
std::span<const ClientProvider> ClientProviders();

// Opens the device of an adapter that the broker offered. NOT_SUPPORTED: this build lacks the provider.
Result<std::shared_ptr<Device>> OpenDevice(const AdapterInfo& adapter, const DeviceOptions& options,
                                           std::span<const ClientProvider> providers = ClientProviders());

}  // namespace nd::provider
