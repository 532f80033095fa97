// SPDX-License-Identifier: Apache-2.0
// The soft adapters of this host: their configuration and their present addresses.
//
// Loop thread only.
#pragma once

#include <string>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/cm.h"
#include "provider/soft/cm/handshake.h"
#include "provider/soft/cm/options.h"

namespace nd::provider::soft {

struct Adapter {
  AdapterOptions options;
  bool follows_host = false;       // No addresses were configured.
  std::vector<Address> addresses;  // Port 0, sorted.

  bool Has(const Address& ip) const;
  // The mode of connections with `remote`.
  PortMode ModeFor(const Address& remote) const;
  // True when ND ports of this adapter are, always or for some networks, TCP ports of this host.
  bool HoldsTcpPorts() const { return options.tcp_mode || !options.tcp_networks.empty(); }
  HandshakeConfig Handshake(PortMode mode) const;
};

class AdapterSet {
 public:
  // INVALID_PARAMETER: a name is missing or used twice, an address belongs to two adapters, two adapters
  // follow the host, or a network is malformed.
  static Result<AdapterSet> Make(const Options& options, const std::vector<Address>& host_addresses);

  // Returns true when the addresses of an adapter have changed.
  bool Refresh(const std::vector<Address>& host_addresses);

  const std::vector<Adapter>& adapters() const { return adapters_; }
  const Adapter* Find(const std::string& name) const;
  const Adapter* Owner(const Address& ip) const;
  std::vector<AdapterDescription> Describe() const;

 private:
  std::vector<Adapter> adapters_;
};

bool Contains(const Network& network, const Address& address);

}  // namespace nd::provider::soft
