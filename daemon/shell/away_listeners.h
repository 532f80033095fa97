// SPDX-License-Identifier: Apache-2.0
// The listeners that the previous broker had and that are not back yet, with the requests that wait for them.
//
// Without it the first requests after a restart would be refused, because the broker is back before its
// applications. Pure; one thread.
#pragma once

#include <vector>

#include "daemon/core/lease.h"
#include "provider/cm.h"

namespace nd::service {

class AwayListeners {
 public:
  // The most requests that are held. The core refuses further ones.
  static constexpr std::size_t kMostRequests = 4096;

  AwayListeners() = default;
  // Takes the listeners from the leases.
  explicit AwayListeners(const std::vector<core::Lease>& leases);

  bool empty() const { return listeners_.empty(); }
  // Returns true when the request is for such a listener; it then waits here.
  bool Hold(const provider::InboundRequest& request);
  // Removes the request. Returns false when it did not wait here.
  bool Forget(provider::CmId id);
  // The listener at `local` is back. Returns the requests for it, oldest first.
  std::vector<provider::InboundRequest> Back(const std::string& adapter, const Address& local);
  // No listener is waited for any longer. Returns all requests, oldest first.
  std::vector<provider::InboundRequest> GiveUp();

 private:
  struct Listener {
    std::string adapter;
    Address local;
    friend bool operator==(const Listener&, const Listener&) = default;
  };
  std::vector<Listener> listeners_;
  std::vector<provider::InboundRequest> requests_;
};

}  // namespace nd::service
