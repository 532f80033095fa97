// SPDX-License-Identifier: Apache-2.0
// A network card that is plugged in becomes an adapter without a restart of the broker.
#include "provider/verbs/cm/device_table.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "provider/verbs/device_limits.h"
#include "provider/verbs/sysfs_linux.h"

namespace nd::provider::verbs {
namespace {

// The kernel announces changes of addresses; new devices are found by looking.
constexpr Duration kLookEvery = std::chrono::seconds(1);
// How often a device that could not be opened is tried again. Permissions may change, and a driver may still
// be loading.
constexpr unsigned kTicksBetweenRetries = 10;

bool SameDescription(const DeviceTable::Port& a, const DeviceTable::Port& b) {
  return a.description.info.name == b.description.info.name &&
         a.description.info.adapter_id == b.description.info.adapter_id &&
         a.description.info.max_transfer_length == b.description.info.max_transfer_length &&
         a.description.info.addresses == b.description.info.addresses;
}

}  // namespace

struct DeviceTable::Device {
  std::string name;
  ibv_context* context = nullptr;
  bool gone = false;
  std::vector<Port> ports;
  // An id bound to one of the addresses of the device. It receives RDMA_CM_EVENT_DEVICE_REMOVAL. Drivers that
  // cannot take a device from its users, rxe and siw among them, announce the removal only there and then
  // wait.
  std::shared_ptr<WireId> sentinel;
  Address sentinel_address;
};

DeviceTable::DeviceTable(EventLoop& loop, Nldev& nldev, BlockingPool& pool, Options options,
                         std::function<void()> changed)
    : loop_(loop), nldev_(nldev), pool_(pool), options_(std::move(options)), changed_(std::move(changed)) {
  seen_ = KernelDeviceNames();
  SyncDevices();
  WatchAddresses();
  Refresh();
  timer_ = loop_.At(loop_.clock().Now() + kLookEvery, [this] { Tick(); });
}

DeviceTable::~DeviceTable() {
  loop_.Cancel(timer_);
  *alive_ = false;
  if (route_socket_) loop_.Remove(route_socket_.get());
  for (const auto& device : devices_) Close(device.get());
}

void DeviceTable::Close(Device* device) {
  loop_.Remove(device->context->async_fd);
  ibv_close_device(device->context);
  if (!device->sentinel) return;
  loop_.Remove(device->sentinel->fd());
  pool_.Submit([wire = std::move(device->sentinel)]() mutable { wire.reset(); });
}

void DeviceTable::WatchRemoval(Device* device) {
  const auto has = [&](const Address& address) {
    return std::any_of(ports_.begin(), ports_.end(), [&](const Port& port) {
      const auto& addresses = port.description.info.addresses;
      return port.device == device->name &&
             std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    });
  };
  if (device->sentinel && has(device->sentinel_address)) return;
  if (device->sentinel) {
    loop_.Remove(device->sentinel->fd());
    pool_.Submit([wire = std::move(device->sentinel)]() mutable { wire.reset(); });
  }
  for (const Port& port : ports_) {
    if (port.device != device->name || port.description.info.addresses.empty()) continue;
    auto wire = WireId::Create();
    const Address& address = port.description.info.addresses.front();
    if (!wire.ok()) return;
    // Port 0: the kernel selects a port outside the range for applications.
    if ((*wire)->Bind(address, true) != 0 ||
        !loop_.Add((*wire)->fd(), EPOLLIN, [this, name = device->name](std::uint32_t) { OnRemoval(name); })) {
      pool_.Submit([wire = std::move(wire).value()]() mutable { wire.reset(); });
      continue;
    }
    device->sentinel = std::move(wire).value();
    device->sentinel_address = address;
    return;
  }
}

void DeviceTable::OnRemoval(const std::string& name) {
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const auto& device) { return device->name == name; });
  if (found == devices_.end() || !(*found)->sentinel) return;
  bool removed = false;
  while (const auto event = (*found)->sentinel->NextEvent()) {
    removed |= event->type == RDMA_CM_EVENT_DEVICE_REMOVAL;
  }
  if (!removed) return;
  (*found)->sentinel->ReleaseDevice();
  // Posted, because the descriptors that are about to be closed may be the ones whose callbacks run now.
  loop_.Post([this, alive = alive_, name] {
    if (!*alive) return;
    const auto gone = std::find_if(devices_.begin(), devices_.end(),
                                   [&](const auto& device) { return device->name == name; });
    if (gone == devices_.end()) return;
    Close(gone->get());
    devices_.erase(gone);
    Refresh();
  });
}

const DeviceTable::Port* DeviceTable::Find(const std::string& adapter) const {
  for (const Port& port : ports_) {
    if (port.description.info.name == adapter) return &port;
  }
  return nullptr;
}

const DeviceTable::Port* DeviceTable::FindPort(const std::string& device, std::uint8_t number) const {
  for (const Port& port : ports_) {
    if (port.device == device && port.number == number) return &port;
  }
  return nullptr;
}

void DeviceTable::WatchAddresses() {
  route_socket_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!route_socket_ ||
      ::bind(route_socket_.get(), reinterpret_cast<sockaddr*>(&groups), sizeof groups) != 0) {
    route_socket_.reset();  // The timer looks too, but later.
    return;
  }
  const bool watched = loop_.Add(route_socket_.get(), EPOLLIN, [this](std::uint32_t) {
    char buffer[8192];
    // Any change leads to a new look, so the messages are dropped. ENOBUFS means that messages were lost,
    // which is a change too.
    while (::recv(route_socket_.get(), buffer, sizeof buffer, 0) > 0 || errno == ENOBUFS) errno = 0;
    Refresh();
  });
  if (!watched) route_socket_.reset();
}

void DeviceTable::Tick() {
  timer_ = loop_.At(loop_.clock().Now() + kLookEvery, [this] { Tick(); });
  std::vector<std::string> names = KernelDeviceNames();
  const bool retry = !problems_.empty() && ++ticks_ % kTicksBetweenRetries == 0;
  const bool gone =
      std::any_of(devices_.begin(), devices_.end(), [](const auto& device) { return device->gone; });
  if (names != seen_ || retry || gone) {
    seen_ = std::move(names);
    SyncDevices();
    Refresh();
  } else if (!route_socket_) {
    Refresh();
  }
}

void DeviceTable::OnAsyncEvent(Device* device) {
  ibv_async_event event{};
  while (ibv_get_async_event(device->context, &event) == 0) {
    if (event.event_type == IBV_EVENT_DEVICE_FATAL) device->gone = true;
    ibv_ack_async_event(&event);
  }
  if (errno == EIO || errno == ENODEV) device->gone = true;
  if (!device->gone) {
    Refresh();
    return;
  }
  // The next tick closes the context, because its descriptor must not be closed inside its own callback.
  // Until then the descriptor must not wake the loop.
  loop_.Modify(device->context->async_fd, 0);
}

void DeviceTable::SyncDevices() {
  std::erase_if(devices_, [&](const std::unique_ptr<Device>& device) {
    const bool there = std::binary_search(seen_.begin(), seen_.end(), device->name);
    if (there && !device->gone) return false;
    Close(device.get());
    return true;
  });
  problems_.clear();
  for (const std::string& name : options_.devices) {
    if (std::binary_search(seen_.begin(), seen_.end(), name)) continue;
    problems_[name] =
        seen_.empty() ? Status(StatusCode::kDeviceNotReady,
                               "This host has no RDMA device: load its driver, or add a software one with "
                               "`rdma link add rxe0 type rxe netdev <interface>`.")
                      : OpenFailure(name, ENODEV);
  }
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; i < count && list != nullptr; ++i) {
    const std::string name = ibv_get_device_name(list[i]);
    const auto known = [&](const auto& device) { return device->name == name; };
    if (std::any_of(devices_.begin(), devices_.end(), known)) continue;
    const std::vector<std::string>& only = options_.devices;
    if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
    errno = 0;
    ibv_context* const context = ibv_open_device(list[i]);
    if (context == nullptr) {
      const int error = errno;
      const int node = DeviceNodeError(name);
      problems_[name] = OpenFailure(name, node != 0 ? node : error == 0 ? EACCES : error);
      continue;
    }
    auto device = std::make_unique<Device>();
    device->name = name;
    device->context = context;
    ibv_device_attr attributes{};
    const unsigned port_count = ibv_query_device(context, &attributes) == 0 ? attributes.phys_port_cnt : 1;
    for (unsigned number = 1; number <= port_count; ++number) {
      auto info = ProbeAdapter(context, static_cast<std::uint8_t>(number));
      if (!info.ok()) {
        problems_[name] = info.status();
        continue;
      }
      Port port;
      port.device = name;
      port.device_index = static_cast<std::uint32_t>(ibv_get_device_index(list[i]));
      port.number = static_cast<std::uint8_t>(number);
      port.iwarp = IsIwarp(*context);
      port.description.info = std::move(info).value();
      AdapterInfo& mine = port.description.info;
      mine.name = AdapterName(name, number, port_count);
      mine.max_inbound_read_limit = std::min(mine.max_inbound_read_limit, options_.max_inbound_read_limit);
      mine.max_outbound_read_limit = std::min(mine.max_outbound_read_limit, options_.max_outbound_read_limit);
      port.description.reserve_ports = true;
      port.description.client_disconnects = false;
      // rdma_cm gives a request to the newest id of its port, and drops it when that id does not listen.
      port.description.shares_listening_ports = false;
      port.description.pins_memory = true;
      device->ports.push_back(std::move(port));
    }
    const int flags = ::fcntl(context->async_fd, F_GETFL);
    Device* const raw = device.get();
    if (device->ports.empty() || flags < 0 || ::fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        !loop_.Add(context->async_fd, EPOLLIN, [this, raw](std::uint32_t) { OnAsyncEvent(raw); })) {
      ibv_close_device(context);
      continue;
    }
    devices_.push_back(std::move(device));
  }
  if (list != nullptr) ibv_free_device_list(list);
  // The kernel has these devices, but this process sees no /dev/infiniband/uverbs* node for them.
  for (const std::string& name : seen_) {
    const auto known = [&](const auto& device) { return device->name == name; };
    const bool wanted =
        options_.devices.empty() ||
        std::find(options_.devices.begin(), options_.devices.end(), name) != options_.devices.end();
    if (!wanted || problems_.contains(name) || std::any_of(devices_.begin(), devices_.end(), known)) continue;
    const int node = DeviceNodeError(name);
    problems_[name] = OpenFailure(name, node != 0 ? node : ENOENT);
  }
}

void DeviceTable::Refresh() {
  const auto said = [](const std::map<std::string, Status>& problems) {
    std::string all;
    for (const auto& [name, problem] : problems) all += name + ": " + problem.message() + "\n";
    return all;
  };
  std::vector<Port> ports;
  for (const auto& device : devices_) {
    if (device->gone) continue;
    for (const Port& known : device->ports) {
      Port port = known;
      std::set<std::string> netdevs = NetdevsOfPort(device->context, port.number);
      if (const auto index = nldev_.PortNetdev(port.device_index, port.number)) {
        char name[IF_NAMESIZE];
        if (if_indextoname(*index, name) != nullptr) netdevs.insert(name);
      }
      port.description.info.addresses = AddressesOf(netdevs);
      ports.push_back(std::move(port));
    }
  }
  const bool same = std::equal(ports.begin(), ports.end(), ports_.begin(), ports_.end(), SameDescription) &&
                    said_ == said(problems_);
  said_ = said(problems_);
  ports_ = std::move(ports);
  for (const auto& device : devices_) WatchRemoval(device.get());
  if (!same) changed_();
}

}  // namespace nd::provider::verbs
