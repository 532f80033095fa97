// SPDX-License-Identifier: Apache-2.0
// One reserved local address: the bound ids that hold its port and listen on command.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "provider/cm.h"
#include "provider/verbs/cm/connection.h"

namespace nd::provider::verbs {

// Thread rule: the loop's thread.
class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  // `on_request`: a CONNECT_REQUEST arrived on a listening id.
  Endpoint(ConnectionHost& host, EndpointId id, std::string adapter, const Address& local,
           std::function<void(const CmEvent&)> on_request);
  ~Endpoint();

  EndpointId id() const { return id_; }
  const std::string& adapter() const { return adapter_; }
  const Address& local() const { return local_; }

  // Takes the port on every address that `local` covers. Returns 0 or an errno. After EADDRINUSE the call may
  // succeed once ids that are being destroyed are gone.
  int Hold();
  Status Listen();
  void Unlisten();
  // The adapter's addresses changed: an unspecified address covers the new ones too.
  void OnAddressesChanged();

 private:
  struct Holder {
    Address address;
    std::shared_ptr<WireId> wire;
    UniqueFd tcp;  // iWARP ports are TCP ports: keeps other programs from taking the port.
  };
  std::vector<Address> Covered() const;
  int Open(Holder* holder);
  int ListenOn(Holder& holder);
  void OnReadable(const Address& address);
  void Drop(Holder* holder);

  ConnectionHost& host_;
  const EndpointId id_;
  const std::string adapter_;
  const Address local_;
  const std::function<void(const CmEvent&)> on_request_;
  bool iwarp_ = false;
  bool listening_ = false, listened_ = false;  // Now; at any time.
  std::vector<Holder> holders_;
};

}  // namespace nd::provider::verbs
