// SPDX-License-Identifier: Apache-2.0
// Spreads what happens to everybody who watches. A watcher that falls behind is told how many it missed.
//
// Publish() on the loop thread; watchers come and go on any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "ndbroker/v1/admin.pb.h"

namespace nd::service {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void Offer(const ndbroker::v1::WatchEvent& event) = 0;
};

class WatchHub {
 public:
  void Add(std::shared_ptr<Watcher> watcher);
  void Remove(const Watcher* watcher);
  void Publish(std::string_view type, std::string_view object, std::string_view message);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace nd::service
