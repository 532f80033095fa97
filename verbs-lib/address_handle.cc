// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/address_handle.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "verbs-lib/by_number.h"
#include "verbs-lib/device.h"
#include "verbs-lib/domains.h"
#include "verbs-lib/export.h"
#include "verbs-lib/settings.h"

namespace nd::verbs_lib {
namespace {

bool IsMulticast(const ibv_gid& gid) {
  const Address address = AddressOf(gid);
  const std::string_view ip = address.ip();
  return gid.raw[0] == 0xff || (ip.size() == 4 && (static_cast<unsigned char>(ip[0]) & 0xf0) == 0xe0);
}

// The GIDs of the header in front of a received message.
void GidsOf(const ibv_grh& header, ibv_gid* source, ibv_gid* destination) {
  if (ntohl(header.version_tclass_flow) >> 28 == 6) {
    *source = header.sgid;
    *destination = header.dgid;
    return;
  }
  std::uint8_t ip[20];
  std::memcpy(ip, reinterpret_cast<const std::uint8_t*>(&header) + sizeof header - sizeof ip, sizeof ip);
  const auto mapped = [](const std::uint8_t* v4) { return GidOf(Address::V4({v4[0], v4[1], v4[2], v4[3]})); };
  *source = mapped(ip + 12);
  *destination = mapped(ip + 16);
}

// The index of the GID, or -1.
int IndexOf(const Device& device, const ibv_gid& gid) {
  const auto& addresses = device.info.addresses;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const ibv_gid own = GidOf(addresses[i]);
    if (std::memcmp(own.raw, gid.raw, sizeof gid.raw) == 0) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace
}  // namespace nd::verbs_lib

using nd::verbs_lib::AddressHandle;
using nd::verbs_lib::FailWith;
using nd::verbs_lib::FromAbi;

NDBROKER_PUBLIC ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  if (nd::verbs_lib::ActsAsIwarp()) return FailWith(EOPNOTSUPP);
  const auto& addresses = FromAbi(domain->context)->device->info.addresses;
  const bool global = attributes->is_global != 0;
  const std::size_t source = global ? attributes->grh.sgid_index : 0;
  if (attributes->port_num != nd::verbs_lib::kOnlyPort || source >= addresses.size() ||
      (!global && attributes->dlid == 0)) {
    return FailWith(EINVAL);
  }
  if (global && nd::verbs_lib::IsMulticast(attributes->grh.dgid)) return FailWith(EOPNOTSUPP);
  const nd::Address destination = global ? nd::verbs_lib::AddressOf(attributes->grh.dgid)
                                         : nd::verbs_lib::WithLid(addresses[source], attributes->dlid);
  if (destination.unspecified() || destination.family() != addresses[source].family())
    return FailWith(EINVAL);
  auto* handle = new AddressHandle;
  handle->abi.context = domain->context;
  handle->abi.pd = domain;
  handle->domain = nd::verbs_lib::HoldOf(domain);
  handle->destination = destination;
  handle->source = source;
  return &handle->abi;
}

NDBROKER_PUBLIC int ibv_destroy_ah(ibv_ah* handle) {
  delete FromAbi(handle);
  return 0;
}

NDBROKER_PUBLIC int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* completion,
                                        ibv_grh* header, ibv_ah_attr* out) {
  std::memset(out, 0, sizeof *out);
  out->dlid = completion->slid;
  out->sl = 0;  // That of a received message is none.
  out->src_path_bits = completion->dlid_path_bits;
  out->port_num = port;
  if ((completion->wc_flags & IBV_WC_GRH) == 0) return 0;
  ibv_gid source, destination;
  nd::verbs_lib::GidsOf(*header, &source, &destination);
  const int index = nd::verbs_lib::IndexOf(*FromAbi(context)->device, destination);
  if (index < 0) {
    errno = EINVAL;
    return -1;
  }
  out->is_global = 1;
  out->grh.dgid = source;
  out->grh.sgid_index = static_cast<std::uint8_t>(index);
  out->grh.hop_limit = 0xff;
  return 0;
}

NDBROKER_PUBLIC ibv_ah* ibv_create_ah_from_wc(ibv_pd* domain, ibv_wc* completion, ibv_grh* header,
                                              std::uint8_t port) {
  ibv_ah_attr attributes;
  if (ibv_init_ah_from_wc(domain->context, port, completion, header, &attributes) != 0) return nullptr;
  return ibv_create_ah(domain, &attributes);
}
