// SPDX-License-Identifier: Apache-2.0
// What starts this process, watches it and is told how it is doing: systemd here, by its documented protocol
// (sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3)); nothing when a person started it.
//
// FromEnvironment(): once, before the first thread. Everything else: any thread; without a service manager
// the calls do nothing. No call waits: a notification that finds no room is dropped, and the next one
// follows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::os {

// A descriptor that the service manager opened for this process, with the name it has there.
struct InheritedDescriptor {
  std::string name;
  UniqueFd fd;
};

class ServiceManager {
 public:
  // Stands for no service manager.
  ServiceManager() = default;
  // Reads the variables of the environment and removes them, so that no child takes them for its own.
  // INVALID_PARAMETER: a variable has a value that no service manager sets; the message names it.
  static Result<ServiceManager> FromEnvironment();

  // Returns true when a service manager waits for Ready() and receives the other messages.
  bool present() const { return static_cast<bool>(socket_); }
  // The service manager expects Alive() at least this often; absent: it has no watchdog.
  std::optional<Duration> watchdog() const { return watchdog_; }
  // Returns each descriptor once; they are close-on-exec.
  std::vector<InheritedDescriptor> TakeDescriptors() { return std::move(descriptors_); }

  // The process serves (after its start, or again after Reloading()). `status` is one line for people.
  void Ready(std::string_view status) const;
  void Status(std::string_view status) const;
  void Reloading(std::string_view status) const;
  void Stopping(std::string_view status) const;
  void Alive() const;

  // Gives the service manager a copy of `fd`, which the next process of this service inherits under `name`:
  // at most 255 printable ASCII characters without ':'. The copy ends with Unstore(), when the service is
  // stopped for good, or when the descriptor hangs up. False: there is no service manager, or no room in its
  // queue.
  bool Store(const std::string& name, int fd) const;
  void Unstore(const std::string& name) const;

 private:
  bool Send(const std::string& message, int fd = -1) const;

  UniqueFd socket_;  // Connected to the service manager.
  std::optional<Duration> watchdog_;
  std::vector<InheritedDescriptor> descriptors_;
};

}  // namespace nd::os
