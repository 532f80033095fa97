// SPDX-License-Identifier: Apache-2.0
// Listening TCP sockets that outlive this process: a service manager keeps a copy of each and gives it to the
// next process. Connections that arrive meanwhile wait in the kernel's queue of the socket.
//
// One thread. Without a service manager nothing is kept, and every call does nothing.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/os/service_manager.h"
#include "base/unique_fd.h"
#include "nd/types.h"

namespace nd::os {

// An address of a network namespace: 0 for that of this process, else as in NetworkOf() (given_socket.h).
struct NetworkAddress {
  Address address;
  std::uint64_t network = 0;
  auto operator<=>(const NetworkAddress&) const = default;
};

// Keeps nothing.
class KeptSockets {
 public:
  KeptSockets() = default;
  virtual ~KeptSockets() = default;
  KeptSockets(const KeptSockets&) = delete;
  KeptSockets& operator=(const KeptSockets&) = delete;

  // Returns true when sockets outlive this process.
  virtual bool keeps() const { return false; }
  // Returns the listening, non-blocking socket that the previous process left for this address, once. It
  // stays kept. No descriptor: there is none.
  virtual UniqueFd Take(const NetworkAddress& /*address*/) { return {}; }
  // Keeps a listening socket from now on. False: the service manager does not take it now; try again later.
  virtual bool Keep(const NetworkAddress& /*address*/, int /*fd*/) { return true; }
  // The socket of this address does not listen any more (shutdown), and nobody needs it.
  virtual void Drop(const NetworkAddress& /*address*/) {}
  // Ends every socket of the previous process that was not taken.
  virtual void DropUnclaimed() {}
};

// systemd's fd store. Each socket has a name of its own there, made from its address.
class StoredSockets final : public KeptSockets {
 public:
  // Removes the sockets of earlier processes from `descriptors`. Those that do not listen are dropped.
  // `manager` outlives this object.
  StoredSockets(const ServiceManager& manager, std::vector<InheritedDescriptor>* descriptors);

  bool keeps() const override { return manager_.present(); }
  UniqueFd Take(const NetworkAddress& address) override;
  bool Keep(const NetworkAddress& address, int fd) override;
  void Drop(const NetworkAddress& address) override;
  void DropUnclaimed() override;

 private:
  const ServiceManager& manager_;
  std::map<NetworkAddress, UniqueFd> left_;
};

}  // namespace nd::os
