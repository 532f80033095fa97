// SPDX-License-Identifier: Apache-2.0
// Messages into rows. Values that crossed a process boundary are taken as they are and never trusted to be
// known.
#include "cli/rows.h"

#include <cmath>
#include <limits>

#include "cli/format.h"
#include "nd/types.h"

namespace nd::cli {
namespace {

Address ToAddress(const ndbroker::v1::Address& address) {
  Address::Family family = Address::Family::kOther;
  if (address.family() == 0) family = Address::Family::kUnspecified;
  if (address.family() == 4) family = Address::Family::kIpv4;
  if (address.family() == 6) family = Address::Family::kIpv6;
  const std::string& ip = address.ip();
  return Address::FromParts(family, std::string_view(ip).substr(0, 16),
                            static_cast<std::uint16_t>(address.port()));
}

std::string TechnologyName(std::uint32_t technology) {
  static constexpr const char* kNames[] = {"undefined", "iWARP", "InfiniBand", "RoCE", "RoCEv2"};
  return technology < std::size(kNames) ? kNames[technology] : "unknown";
}

}  // namespace

std::string AddressText(const ndbroker::v1::Address& address) {
  if (address.family() == 0 && address.ip().empty()) return {};
  return ToAddress(address).ToString();
}

std::string IpText(const ndbroker::v1::Address& address) {
  return ToAddress(address).IpToString();
}

Value OwnerValue(const ndbroker::v1::Owner& owner) {
  Value value = Value::MakeObject();
  value.Set("application", owner.application())
      .Set("command", owner.command())
      .Set("pid", owner.pid())
      .Set("uid", owner.uid());
  return value;
}

Value AdapterInfoValue(const ndbroker::v1::AdapterInfo& info) {
  Value addresses = Value::MakeArray();
  for (const auto& address : info.addresses()) addresses.array().emplace_back(IpText(address));
  Value limits = Value::MakeObject();
  limits.Set("max_registration_size", info.max_registration_size())
      .Set("max_window_size", info.max_window_size())
      .Set("max_initiator_sge", info.max_initiator_sge())
      .Set("max_receive_sge", info.max_receive_sge())
      .Set("max_read_sge", info.max_read_sge())
      .Set("max_transfer_length", info.max_transfer_length())
      .Set("max_inline_data_size", info.max_inline_data_size())
      .Set("max_inbound_read_limit", info.max_inbound_read_limit())
      .Set("max_outbound_read_limit", info.max_outbound_read_limit())
      .Set("max_receive_queue_depth", info.max_receive_queue_depth())
      .Set("max_initiator_queue_depth", info.max_initiator_queue_depth())
      .Set("max_shared_receive_queue_depth", info.max_shared_receive_queue_depth())
      .Set("max_completion_queue_depth", info.max_completion_queue_depth())
      .Set("inline_request_threshold", info.inline_request_threshold())
      .Set("large_request_threshold", info.large_request_threshold())
      .Set("max_caller_data", info.max_caller_data())
      .Set("max_callee_data", info.max_callee_data());
  Value value = Value::MakeObject();
  value.Set("name", info.name())
      .Set("provider", info.provider())
      .Set("technology", TechnologyName(info.technology()))
      .Set("adapter_id", info.adapter_id())
      .Set("vendor_id", info.vendor_id())
      .Set("device_id", info.device_id())
      .Set("flags", info.flags())
      .Set("addresses", std::move(addresses))
      .Set("limits", std::move(limits));
  return value;
}

Status StatusOf(const ndbroker::v1::Status& status) {
  const std::uint32_t detail = status.detail();
  const bool fits = detail <= std::numeric_limits<std::uint8_t>::max();
  return {static_cast<StatusCode>(status.code()), status.message(),
          fits ? static_cast<Detail>(detail) : Detail::kNone, status.native()};
}

double Rounded(double seconds) {
  return std::round(seconds * 1000) / 1000;
}

void SetAge(double seconds, Value* row) {
  row->Set("age_seconds", Rounded(seconds)).Set("since", TimeAgo(seconds));
}

}  // namespace nd::cli
