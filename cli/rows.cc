// SPDX-License-Identifier: Apache-2.0
// Converts messages to rows. Enumerators from another process may be unknown.
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
      .Set("uid", owner.uid())
      .Set("unit", owner.unit())
      .Set("container", owner.container())
      .Set("cgroup", owner.cgroup())
      .Set("pod_namespace", owner.pod_namespace())
      .Set("pod", owner.pod())
      .Set("service_account", owner.service_account());
  return value;
}

std::string OwnerText(const Value& row) {
  const auto text = [&](const char* path) {
    const Value* value = row.Find(path);
    return value == nullptr ? std::string() : value->Text();
  };
  const std::string name =
      text("owner.application").empty() ? text("owner.command") : text("owner.application");
  return (name.empty() ? "process" : name) + " (pid " + text("owner.pid") + ")";
}

Value TrafficValue(const ndbroker::v1::Traffic& traffic) {
  const auto number = [](std::uint64_t value) { return Value(value); };
  Value value = Value::MakeObject();
  value.Set("tx_bytes", number(traffic.tx_bytes()))
      .Set("rx_bytes", number(traffic.rx_bytes()))
      .Set("tx_sends", number(traffic.tx_sends()))
      .Set("rx_sends", number(traffic.rx_sends()))
      .Set("tx_writes", number(traffic.tx_writes()))
      .Set("rx_writes", number(traffic.rx_writes()))
      .Set("tx_reads", number(traffic.tx_reads()))
      .Set("rx_reads", number(traffic.rx_reads()))
      .Set("errors", number(traffic.errors()))
      .Set("stalls", number(traffic.stalls()))
      .Set("wakeups", number(traffic.wakeups()));
  return value;
}

Value PhasesValue(const google::protobuf::RepeatedPtrField<ndbroker::v1::Phase>& phases) {
  Value list = Value::MakeArray();
  for (const auto& phase : phases) {
    Value item = Value::MakeObject();
    item.Set("name", phase.name()).Set("seconds", phase.seconds());
    list.array().push_back(std::move(item));
  }
  return list;
}

Failure ParseAddress(const std::string& text, ndbroker::v1::Address* address, bool any_port) {
  const auto parsed = Address::Parse(text);
  if (!parsed.ok() || (parsed->port() == 0 && !any_port)) {
    return Error{Exit::kUsage,
                 "'" + text + "' is not an address with a port",
                 "write 10.0.0.1:7000 or [::1]:7000",
                 {}};
  }
  address->set_family(static_cast<std::uint32_t>(parsed->family()));
  address->set_ip(std::string(parsed->ip()));
  address->set_port(parsed->port());
  return std::nullopt;
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
