// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/device.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "verbs-lib/cm_id.h"
#include "verbs-lib/export.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/lent_memory.h"
#include "verbs-lib/settings.h"

namespace nd::verbs_lib {
namespace {

// Behind every index that a kernel gives to a device of its own.
constexpr int kFirstIndex = 1'000'000;

struct DeviceTable {
  std::mutex mutex;
  bool known = false, complained = false;
  std::vector<Device*> devices;
};

DeviceTable& Table() {
  static auto* table = new DeviceTable;
  return *table;
}

Device* MakeDevice(const AdapterInfo& info, int index) {
  auto* device = new Device;
  device->info = info;
  device->index = kFirstIndex + index;
  ibv_device& abi = device->abi;
  abi.node_type = ActsAsIwarp() ? IBV_NODE_RNIC : IBV_NODE_CA;
  abi.transport_type = ActsAsIwarp() ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  const std::string uverbs = "uverbs" + std::to_string(index);
  std::snprintf(abi.name, sizeof abi.name, "%s", info.name.c_str());
  std::snprintf(abi.dev_name, sizeof abi.dev_name, "%s", uverbs.c_str());
  std::snprintf(abi.dev_path, sizeof abi.dev_path, "/sys/class/infiniband_verbs/%s", uverbs.c_str());
  std::snprintf(abi.ibdev_path, sizeof abi.ibdev_path, "/sys/class/infiniband/%s", abi.name);
  return device;
}

}  // namespace

const std::vector<Device*>* Devices() {
  if (RefuseInForkedChild()) return nullptr;
  DeviceTable& table = Table();
  std::lock_guard lock(table.mutex);
  if (table.known) return &table.devices;
  auto adapters = Adapter::QueryAdapters();
  if (!adapters.ok()) {
    if (!std::exchange(table.complained, true)) {
      std::fprintf(stderr, "ndbroker: no RDMA device: %s\n", adapters.status().message().c_str());
    }
    errno = ENODEV;
    return nullptr;
  }
  table.known = true;
  const std::string& wanted = GetSettings().adapter;
  for (const AdapterInfo& info : *adapters) {
    if (info.provider != "soft" || (!wanted.empty() && info.name != wanted)) continue;
    table.devices.push_back(MakeDevice(info, static_cast<int>(table.devices.size())));
  }
  if (table.devices.empty()) {
    std::fprintf(stderr, "ndbroker: no RDMA device: the broker has no adapter %s of provider soft\n",
                 wanted.empty() ? "" : ("'" + wanted + "'").c_str());
  }
  return &table.devices;
}

Device* DeviceOf(const Address& local) {
  const auto* devices = Devices();
  if (devices == nullptr) return nullptr;
  for (Device* device : *devices) {
    if (std::ranges::any_of(device->info.addresses, [&](const Address& own) { return own.same_ip(local); })) {
      return device;
    }
  }
  return nullptr;
}

Address Attached(const Address& address) {
  static const Address v6 = Address::Parse("::1").value();
  const bool v4 =
      address.family() == Address::Family::kIpv4 && address.well_formed() && address.ip()[0] == 127;
  const auto* devices = Devices();
  if (!(v4 || address.same_ip(v6)) || devices == nullptr || DeviceOf(address) != nullptr) return address;
  for (const Device* device : *devices) {
    for (const Address& own : device->info.addresses) {
      if (own.family() == address.family()) return own.WithPort(address.port());
    }
  }
  return address;
}

Adapter* Device::adapter() {
  std::lock_guard lock(mutex_);
  if (!open_) {
    UseInThisProcess();
    OpenOptions options;
    options.adapter = info.name;
    options.application = ApplicationName(program_invocation_short_name);
    auto opened = Adapter::Open(options);
    if (!opened.ok()) {
      std::fprintf(stderr, "ndbroker: cannot open %s: %s\n", info.name.c_str(),
                   opened.status().message().c_str());
      errno = ErrnoOf(opened.status());
      return nullptr;
    }
    adapter_ = std::move(opened).value();
    adapter_.SetAdapterCallback([this](AdapterChange change) { OnChange(change); });
    open_ = true;
    LendMemory();
  }
  return &adapter_;
}

void Device::AddContext(Context* context) {
  std::lock_guard lock(contexts_mutex_);
  contexts_.push_back(context);
}

void Device::RemoveContext(Context* context) {
  std::lock_guard lock(contexts_mutex_);
  std::erase(contexts_, context);
}

// A disabled adapter is as a device whose link is down: connections end, and it may come back.
void Device::OnChange(AdapterChange change) {
  up_.store(change == AdapterChange::kEnabled);
  ibv_async_event event{};
  event.event_type = change == AdapterChange::kEnabled    ? IBV_EVENT_PORT_ACTIVE
                     : change == AdapterChange::kDisabled ? IBV_EVENT_PORT_ERR
                                                          : IBV_EVENT_DEVICE_FATAL;
  event.element.port_num = 1;
  {
    std::lock_guard lock(contexts_mutex_);
    for (Context* context : contexts_) context->Tell(event);
  }
  if (change == AdapterChange::kRemoved) CmId::TellRemoval(this);
}

__be64 GuidOf(const AdapterInfo& info) {
  return htobe64(info.adapter_id);
}

int ErrnoOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kSuccess:
      return 0;
    case StatusCode::kNoMemory:
    case StatusCode::kNoMoreEntries:
    case StatusCode::kInsufficientResources:
      return ENOMEM;
    case StatusCode::kAccessDenied:
      return EACCES;
    case StatusCode::kSharingViolation:
    case StatusCode::kAddressAlreadyExists:
    case StatusCode::kTooManyAddresses:
      return EADDRINUSE;
    case StatusCode::kInvalidAddress:
    case StatusCode::kAddressNotAssociated:
      return EADDRNOTAVAIL;
    case StatusCode::kDeviceBusy:
      return EBUSY;
    case StatusCode::kDeviceNotReady:
    case StatusCode::kDeviceRemoved:
      return ENODEV;
    case StatusCode::kNotSupported:
      return EOPNOTSUPP;
    case StatusCode::kNetworkUnreachable:
      return ENETUNREACH;
    case StatusCode::kHostUnreachable:
      return EHOSTUNREACH;
    case StatusCode::kIoTimeout:
      return ETIMEDOUT;
    case StatusCode::kConnectionRefused:
      return ECONNREFUSED;
    case StatusCode::kConnectionAborted:
    case StatusCode::kCanceled:
      return ECONNABORTED;
    case StatusCode::kConnectionInvalid:
    case StatusCode::kConnectionDisconnected:
      return ENOTCONN;
    default:
      return EINVAL;
  }
}

std::nullptr_t FailWith(int error) {
  errno = error;
  return nullptr;
}

}  // namespace nd::verbs_lib

using nd::verbs_lib::Device;
using nd::verbs_lib::FromAbi;

NDBROKER_PUBLIC ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  const auto* devices = nd::verbs_lib::Devices();
  if (devices == nullptr) return nullptr;
  auto** list = static_cast<ibv_device**>(calloc(devices->size() + 1, sizeof(ibv_device*)));
  if (list == nullptr) return nd::verbs_lib::FailWith(ENOMEM);
  for (std::size_t i = 0; i < devices->size(); ++i) list[i] = &(*devices)[i]->abi;
  if (count != nullptr) *count = static_cast<int>(devices->size());
  return list;
}

NDBROKER_PUBLIC void ibv_free_device_list(ibv_device** list) {
  free(list);
}

NDBROKER_PUBLIC const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

NDBROKER_PUBLIC __be64 ibv_get_device_guid(ibv_device* device) {
  return nd::verbs_lib::GuidOf(FromAbi(device)->info);
}

NDBROKER_PUBLIC int ibv_get_device_index(ibv_device* device) {
  return FromAbi(device)->index;
}
