// SPDX-License-Identifier: Apache-2.0
// Converts rows of the core for display: ids as text, times as ages.
#include "daemon/admin/admin_rows.h"

#include <algorithm>
#include <string>

#include "daemon/service/convert.h"
#include "daemon/shell/id_text.h"
#include "daemon/shell/record_sink.h"

namespace nd::service {
namespace {

double Age(Time created, Time now) {
  return std::max(0.0, std::chrono::duration<double>(now - created).count());
}

void SetOwner(const core::Identity& identity, pb::Owner* out) {
  out->set_pid(identity.pid);
  out->set_uid(identity.uid);
  out->set_command(identity.command);
  out->set_application(identity.application);
  out->set_unit(identity.unit);
  out->set_container(identity.container);
  out->set_cgroup(identity.cgroup);
  out->set_pod_namespace(identity.pod.namespace_name);
  out->set_pod(identity.pod.name);
  out->set_service_account(identity.pod.service_account);
}

char KindOfHolder(const std::string& kind) {
  return kind == "listener" ? 'l' : kind == "shared endpoint" ? 'e' : 'c';
}

}  // namespace

void ToProto(const core::AdapterRow& row, pb::AdapterRow* out) {
  ToProto(row.description.info, out->mutable_info());
  const bool usable = row.description.problem.ok();
  out->set_state(!usable ? "unavailable" : row.enabled ? "enabled" : "disabled");
  out->set_problem(row.description.problem.message());
  out->set_mode(row.description.mode);
  out->set_tcp_port(row.description.tcp_port);
  out->set_connections(row.connections);
  out->set_listeners(row.listeners);
  out->set_ephemeral_used(row.ephemeral_used);
}

void ToProto(const core::ListenerRow& row, Time now, pb::ListenerRow* out) {
  out->set_id(IdText('l', row.id.value));
  ToProto(row.local, out->mutable_local());
  out->set_state(row.state);
  SetOwner(row.owner, out->mutable_owner());
  out->set_adapter(row.adapter);
  out->set_backlog_limit(row.backlog_limit);
  out->set_backlog_used(row.backlog_used);
  out->set_waiting_gets(row.waiting_gets);
  out->set_accepted(row.accepted);
  out->set_refused(row.refused);
  out->set_age_seconds(Age(row.created, now));
}

void ToProto(const ConnectionSnapshot& snapshot, Time now, pb::ConnectionRow* out) {
  const core::ConnectionRow& row = snapshot.row;
  out->set_id(IdText('c', row.id.value));
  out->set_state(std::string(core::Name(row.state)));
  ToProto(row.local, out->mutable_local());
  ToProto(row.peer, out->mutable_peer());
  SetOwner(row.owner, out->mutable_owner());
  out->set_adapter(row.adapter);
  out->set_passive(row.passive);
  out->set_transport(std::string(snapshot.transport));
  ToProto(row.limits, out->mutable_limits());
  out->set_age_seconds(Age(row.created, now));
  out->set_tx_bytes(snapshot.traffic.tx_bytes);
  out->set_rx_bytes(snapshot.traffic.rx_bytes);
  out->set_tx_messages(snapshot.traffic.tx_messages());
  out->set_rx_messages(snapshot.traffic.rx_messages());
  out->set_errors(snapshot.traffic.errors);
  ToProto(snapshot.traffic, out->mutable_traffic());
  if (row.phases) {
    for (const PhaseSpan& span : SpansOf(*row.phases)) {
      pb::Phase* phase = out->add_phases();
      phase->set_name(core::PhaseName(span.phase));
      phase->set_seconds(span.seconds);
    }
  }
  if (snapshot.wire_local.well_formed()) ToProto(snapshot.wire_local, out->mutable_wire_local());
  if (snapshot.wire_peer.well_formed()) ToProto(snapshot.wire_peer, out->mutable_wire_peer());
  out->set_reads_in_flight(snapshot.traffic.reads_in_flight);
  out->set_reads_in_flight_max(snapshot.traffic.reads_in_flight_max);
  if (row.through) out->set_through(IdText(row.passive ? 'l' : 'e', row.through.value));
}

void ToProto(const Traffic& traffic, pb::Traffic* out) {
  out->set_tx_bytes(traffic.tx_bytes);
  out->set_rx_bytes(traffic.rx_bytes);
  out->set_tx_sends(traffic.tx_sends);
  out->set_rx_sends(traffic.rx_sends);
  out->set_tx_writes(traffic.tx_writes);
  out->set_rx_writes(traffic.rx_writes);
  out->set_tx_reads(traffic.tx_reads);
  out->set_rx_reads(traffic.rx_reads);
  out->set_errors(traffic.errors);
  out->set_stalls(traffic.stalls);
  out->set_wakeups(traffic.wakeups);
}

void ToProto(const core::QueuePairRow& row, const Traffic& traffic, pb::QueuePairRow* out) {
  out->set_id(IdText('q', row.id.value));
  if (row.connection) out->set_connection(IdText('c', row.connection.value));
  SetOwner(row.owner, out->mutable_owner());
  out->set_adapter(row.adapter);
  out->set_receive_queue_depth(row.receive_depth);
  out->set_initiator_queue_depth(row.initiator_depth);
  out->set_device_number(row.device_number);
  ToProto(traffic, out->mutable_traffic());
  out->set_state(row.state);
}

void ToProto(const Region& region, const core::SessionRow& session, pb::MemoryRegionRow* out) {
  out->set_id(RegionIdText(static_cast<std::uint64_t>(session.id), region.number));
  out->set_kind(region.window ? "window" : "region");
  out->set_bytes(region.bytes);
  std::string access;
  const auto add = [&](std::uint32_t right, const char* name) {
    if ((region.access & right) == right) access += (access.empty() ? "" : "+") + std::string(name);
  };
  add(kAllowLocalWrite, "local-write");
  add(kAllowRemoteRead, "remote-read");
  add(kAllowRemoteWrite, "remote-write");
  out->set_access(access);
  out->set_buffer(region.buffer);
  SetOwner(session.owner, out->mutable_owner());
  out->set_adapter(session.adapter);
}

void ToProto(const core::EndpointRow& row, pb::EndpointRow* out) {
  out->set_id(IdText('e', row.id.value));
  ToProto(row.local, out->mutable_local());
  out->set_state(row.closing ? "closing" : "open");
  SetOwner(row.owner, out->mutable_owner());
  out->set_adapter(row.adapter);
  out->set_connections(row.connections);
}

void ToProto(const core::PortRow& row, pb::PortRow* out) {
  ToProto(row.local, out->mutable_local());
  out->set_adapter(row.adapter);
  out->set_kind(row.kind);
  if (row.holder) out->set_holder(IdText(KindOfHolder(row.kind), row.holder.value));
  out->set_state(row.comment.empty() ? row.state : row.state + ": " + row.comment);
  if (row.owner) SetOwner(*row.owner, out->mutable_owner());
  out->set_references(row.references);
}

void ToProto(const core::SessionRow& row, Time now, pb::SessionRow* out) {
  out->set_id(IdText('s', static_cast<std::uint64_t>(row.id)));
  SetOwner(row.owner, out->mutable_owner());
  out->set_age_seconds(Age(row.opened, now));
  out->set_connectors(row.connectors);
  out->set_listeners(row.listeners);
  out->set_shared_endpoints(row.shared_endpoints);
  out->set_queue_pairs(row.queue_pairs);
  out->set_operations(row.operations);
  out->set_pending_operations(row.pending_operations);
}

void ToProto(const core::Counters& counters, pb::Counters* out) {
  out->set_connect(counters.connect);
  out->set_accept(counters.accept);
  out->set_connect_failure(counters.connect_failure);
  out->set_connection_error(counters.connection_error);
  out->set_active_connection(counters.active_connection);
  for (const auto& [code, count] : counters.failures)
    (*out->mutable_failures())[std::string(Name(code))] = count;
  for (const auto& [detail, count] : counters.refusals)
    (*out->mutable_refusals())[std::string(Name(detail))] = count;
}

}  // namespace nd::service
