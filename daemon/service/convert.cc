// SPDX-License-Identifier: Apache-2.0
// Converts to the protobuf types of the administration.
#include "daemon/service/convert.h"

#include <string>

#include "session/table.h"

namespace nd::service {

Address FromProto(const pb::Address& message) {
  const std::string& ip = message.ip();
  return session::Join(session::AddressParts{
      message.family(), {reinterpret_cast<const std::uint8_t*>(ip.data()), ip.size()}, message.port()});
}

void ToProto(const Address& address, pb::Address* out) {
  out->set_family(static_cast<std::uint32_t>(address.family()));
  out->set_ip(std::string(address.ip()));
  out->set_port(address.port());
}

void ToProto(const Status& status, pb::Status* out) {
  out->set_code(static_cast<std::uint32_t>(status.code()));
  out->set_detail(static_cast<std::uint32_t>(status.detail()));
  out->set_native(status.native());
  if (!status.message().empty()) out->set_message(status.message());
}

void ToProto(const ReadLimits& limits, pb::ReadLimits* out) {
  out->set_inbound(limits.inbound);
  out->set_outbound(limits.outbound);
}

void ToProto(const AdapterInfo& info, pb::AdapterInfo* out) {
  out->set_name(info.name);
  out->set_provider(info.provider);
  out->set_adapter_id(info.adapter_id);
  out->set_vendor_id(info.vendor_id);
  out->set_device_id(info.device_id);
  out->set_technology(static_cast<std::uint32_t>(info.technology));
  out->set_flags(info.flags);
  out->set_max_registration_size(info.max_registration_size);
  out->set_max_window_size(info.max_window_size);
  out->set_max_initiator_sge(info.max_initiator_sge);
  out->set_max_receive_sge(info.max_receive_sge);
  out->set_max_read_sge(info.max_read_sge);
  out->set_max_transfer_length(info.max_transfer_length);
  out->set_max_inline_data_size(info.max_inline_data_size);
  out->set_max_inbound_read_limit(info.max_inbound_read_limit);
  out->set_max_outbound_read_limit(info.max_outbound_read_limit);
  out->set_max_receive_queue_depth(info.max_receive_queue_depth);
  out->set_max_initiator_queue_depth(info.max_initiator_queue_depth);
  out->set_max_shared_receive_queue_depth(info.max_shared_receive_queue_depth);
  out->set_max_completion_queue_depth(info.max_completion_queue_depth);
  out->set_inline_request_threshold(info.inline_request_threshold);
  out->set_large_request_threshold(info.large_request_threshold);
  out->set_max_caller_data(info.max_caller_data);
  out->set_max_callee_data(info.max_callee_data);
  for (const Address& address : info.addresses) ToProto(address, out->add_addresses());
}

}  // namespace nd::service
