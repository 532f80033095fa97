// SPDX-License-Identifier: Apache-2.0
// The RDMA devices of this host as adapters. The table follows devices, ports and addresses as they come and
// go.
#pragma once

#include <infiniband/verbs.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "provider/cm.h"
#include "provider/verbs/cm/blocking_pool.h"
#include "provider/verbs/cm/options.h"
#include "provider/verbs/cm/wire_id.h"
#include "provider/verbs/nldev.h"

namespace nd::provider::verbs {

// Thread rule: the loop's thread.
class DeviceTable {
 public:
  struct Port {
    std::string device;
    std::uint32_t device_index = 0;  // The kernel's, for Nldev.
    std::uint8_t number = 1;
    bool iwarp = false;
    AdapterDescription description;
  };

  // `changed` runs on the loop after ports() or problems() changed.
  DeviceTable(EventLoop& loop, Nldev& nldev, BlockingPool& pool, Options options,
              std::function<void()> changed);
  ~DeviceTable();

  const std::vector<Port>& ports() const { return ports_; }
  const Port* Find(const std::string& adapter) const;
  const Port* FindPort(const std::string& device, std::uint8_t number) const;
  // Devices that cannot be offered, with the reason and the remedy.
  const std::map<std::string, Status>& problems() const { return problems_; }

 private:
  struct Device;
  void Tick();
  void WatchAddresses();
  void OnAsyncEvent(Device* device);
  // The device is being removed. This process must release everything of it, or the kernel waits for ever.
  void OnRemoval(const std::string& name);
  void WatchRemoval(Device* device);
  void Close(Device* device);
  void SyncDevices();
  // Reads the addresses again and reports a change.
  void Refresh();

  EventLoop& loop_;
  Nldev& nldev_;
  BlockingPool& pool_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const Options options_;
  const std::function<void()> changed_;
  UniqueFd route_socket_;
  EventLoop::TimerId timer_{};
  unsigned ticks_ = 0;
  std::vector<std::string> seen_;  // Kernel device names at the last look.
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Port> ports_;
  std::map<std::string, Status> problems_;
  std::string said_;  // All problems, as changed() reported them last.
};

}  // namespace nd::provider::verbs
