// SPDX-License-Identifier: Apache-2.0
// The soft adapters of this host: their configuration and their present addresses.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <map>
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
  std::uint64_t network = 0;       // As in AdapterDescription; 0: of this host.

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

  // The adapters of this host.
  const std::vector<Adapter>& adapters() const { return adapters_; }
  // Adapters of other networks. The adapter that stands for `network` has the options of the host's adapter
  // that clients get first, and separate mode. Null: no adapter is in separate mode, or there is one already.
  const Adapter* AddNetwork(std::uint64_t network, std::vector<Address> addresses);
  void RemoveNetwork(std::uint64_t network) { networks_.erase(network); }
  // Returns true when the addresses have changed.
  bool RefreshNetwork(std::uint64_t network, std::vector<Address> addresses);
  // Null: there is no such adapter.
  const Adapter* OfNetwork(std::uint64_t network) const;
  bool serves_networks() const { return Model() != nullptr; }

  const Adapter* Find(const std::string& name) const;
  // The adapter that has the address in this network.
  const Adapter* Owner(const Address& ip, std::uint64_t network = 0) const;
  std::vector<AdapterDescription> Describe() const;

 private:
  // The adapter of this host that adapters of other networks copy.
  const Adapter* Model() const;

  std::vector<Adapter> adapters_;
  std::map<std::uint64_t, Adapter> networks_;
};

bool Contains(const Network& network, const Address& address);

}  // namespace nd::provider::soft
