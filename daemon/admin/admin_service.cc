// SPDX-License-Identifier: Apache-2.0
// Lists and status of Admin. Changes and Watch are in admin_changes.cc.
#include "daemon/admin/admin_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/os/self.h"
#include "daemon/admin/admin_rows.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/shell/id_text.h"

namespace nd::service {
namespace {

grpc::ServerUnaryReactor* BadId(grpc::CallbackServerContext* context, char kind, const std::string& text) {
  auto* reactor = context->DefaultReactor();
  reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, "\"" + text + "\" is no id; expected one like " +
                                                           std::string(1, kind) + "-3f2a000001000001"});
  return reactor;
}

// The filter of a list request: none, or one value.
struct Wanted {
  bool good = true;
  std::optional<std::uint64_t> id;
  bool Is(std::uint64_t value) const { return !id || *id == value; }
};
Wanted WantedId(char kind, const std::string& text) {
  if (text.empty()) return {};
  const std::optional<std::uint64_t> id = ParseId(kind, text);
  return {id.has_value(), id};
}

template <typename T>
auto Shared(T value) {
  return std::make_shared<T>(std::move(value));
}

}  // namespace

AdminService::AdminService(EventLoop& loop, Worker& worker, WatchHub& hub, BrokerShell& shell,
                           Options options)
    : loop_(loop), worker_(worker), hub_(hub), shell_(shell), options_(std::move(options)) {
  SetMessageAllocatorFor_ListConnections(&connection_memory_);
  SetMessageAllocatorFor_ListQueuePairs(&queue_pair_memory_);
}

grpc::ServerUnaryReactor* AdminService::Snapshot(Context* context,
                                                 std::function<std::function<void()>()> take) {
  Unary* reactor = context->DefaultReactor();
  loop_.Post([this, reactor, take = std::move(take)] {
    worker_.Post([reactor, encode = take()] {
      encode();
      reactor->Finish(grpc::Status::OK);
    });
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetStatus(Context* context, const pb::GetStatusRequest*,
                                                  pb::BrokerStatus* reply) {
  return Snapshot(context, [this, reply]() -> std::function<void()> {
    const core::Broker& core = shell_.core();
    const Time now = loop_.clock().Now();
    reply->set_version(options_.version);
    reply->set_pid(os::ProcessNumber());
    reply->set_boot_epoch(options_.boot_epoch);
    reply->set_uptime_seconds(std::chrono::duration<double>(now - options_.started).count());
    reply->set_config_file(options_.config_file);
    ToProto(core.counters(), reply->mutable_counters());
    reply->set_draining(core.draining());
    std::uint32_t listeners = 0, connections = 0;
    for (const core::AdapterRow& row : core.Adapters()) {
      ToProto(row.description.info, reply->add_adapters());
      listeners += row.listeners;
      connections += row.connections;
    }
    reply->set_sessions(static_cast<std::uint32_t>(core.Sessions().size()));
    reply->set_connections(connections);
    reply->set_listeners(listeners);
    reply->set_shared_endpoints(static_cast<std::uint32_t>(core.Endpoints().size()));
    reply->set_handshakes(shell_.manager().handshakes());
    if (const std::optional<Time> oldest = core.OldestPending()) {
      reply->set_oldest_pending_seconds(std::chrono::duration<double>(now - *oldest).count());
    }
    return [reply] {
      reply->set_open_fds(ops::OpenFds());
      reply->set_fd_limit(ops::FdLimit());
      reply->set_resident_bytes(ops::ResidentBytes());
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListAdapters(Context* context, const pb::ListRequest* request,
                                                     pb::AdapterList* reply) {
  return Snapshot(context, [this, name = request->id(), reply]() -> std::function<void()> {
    return [rows = Shared(shell_.core().Adapters()), name, reply] {
      for (const core::AdapterRow& row : *rows) {
        if (name.empty() || row.description.info.name == name) ToProto(row, reply->add_items());
      }
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListListeners(Context* context, const pb::ListRequest* request,
                                                      pb::ListenerList* reply) {
  const Wanted wanted = WantedId('l', request->id());
  if (!wanted.good) return BadId(context, 'l', request->id());
  return Snapshot(context, [this, wanted, reply]() -> std::function<void()> {
    return [rows = Shared(shell_.core().Listeners()), wanted, reply, now = loop_.clock().Now()] {
      for (const core::ListenerRow& row : *rows) {
        if (wanted.Is(row.id.value)) ToProto(row, now, reply->add_items());
      }
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListConnections(Context* context, const pb::ListRequest* request,
                                                        pb::ConnectionList* reply) {
  const Wanted wanted = WantedId('c', request->id());
  if (!wanted.good) return BadId(context, 'c', request->id());
  return Snapshot(context, [this, wanted, reply]() -> std::function<void()> {
    auto snapshots = std::make_shared<std::vector<ConnectionSnapshot>>();
    std::vector<core::ConnectionRow> rows = shell_.core().Connections();
    if (!wanted.id) snapshots->reserve(rows.size());
    for (core::ConnectionRow& row : rows) {
      if (!wanted.Is(row.id.value)) continue;
      const BrokerShell::Link link = shell_.LinkOf(row.id);
      ConnectionSnapshot snapshot{std::move(row), link.transport, link.wire_local, link.wire_peer, {}};
      if (snapshot.row.has_queue_pair) {
        snapshot.traffic =
            shell_.TrafficOf(snapshot.row.session, snapshot.row.counter_slot).value_or(Traffic{});
      }
      snapshots->push_back(std::move(snapshot));
    }
    return [snapshots, reply, now = loop_.clock().Now()] {
      for (const ConnectionSnapshot& snapshot : *snapshots) ToProto(snapshot, now, reply->add_items());
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListQueuePairs(Context* context, const pb::ListRequest* request,
                                                       pb::QueuePairList* reply) {
  const Wanted wanted = WantedId('q', request->id());
  if (!wanted.good) return BadId(context, 'q', request->id());
  return Snapshot(context, [this, wanted, reply]() -> std::function<void()> {
    auto rows = Shared(std::vector<std::pair<core::QueuePairRow, Traffic>>());
    for (core::QueuePairRow& row : shell_.core().QueuePairs()) {
      if (!wanted.Is(row.id.value)) continue;
      const Traffic traffic = shell_.TrafficOf(row.session, row.counter_slot).value_or(Traffic{});
      rows->emplace_back(std::move(row), traffic);
    }
    return [rows, reply] {
      for (const auto& [row, traffic] : *rows) ToProto(row, traffic, reply->add_items());
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListMemoryRegions(Context* context, const pb::ListRequest* request,
                                                          pb::MemoryRegionList* reply) {
  std::optional<RegionId> wanted;
  if (!request->id().empty()) {
    wanted = ParseRegionId(request->id());
    if (!wanted) {
      return BadRequest(context, "\"" + ops::Printable(request->id(), 64) +
                                     "\" is no id of a memory region; expected one like 3:17");
    }
  }
  return Snapshot(context, [this, wanted, reply]() -> std::function<void()> {
    struct OfSession {
      core::SessionRow session;
      Regions regions;
    };
    auto all = Shared(std::vector<OfSession>());
    for (core::SessionRow& row : shell_.core().Sessions()) {
      if (wanted && static_cast<std::uint64_t>(row.id) != wanted->session) continue;
      Regions regions = shell_.RegionsOf(row.id);
      all->push_back({std::move(row), std::move(regions)});
    }
    return [all, wanted, reply] {
      std::uint64_t unlisted = 0;
      for (const OfSession& of : *all) {
        unlisted += of.regions.unlisted;
        for (const Region& region : of.regions.rows) {
          if (!wanted || region.number == wanted->number) ToProto(region, of.session, reply->add_items());
        }
      }
      reply->set_unlisted(unlisted);
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListEndpoints(Context* context, const pb::ListRequest* request,
                                                      pb::EndpointList* reply) {
  const Wanted wanted = WantedId('e', request->id());
  if (!wanted.good) return BadId(context, 'e', request->id());
  return Snapshot(context, [this, wanted, reply]() -> std::function<void()> {
    return [rows = Shared(shell_.core().Endpoints()), wanted, reply] {
      for (const core::EndpointRow& row : *rows) {
        if (wanted.Is(row.id.value)) ToProto(row, reply->add_items());
      }
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListPorts(Context* context, const pb::ListRequest* request,
                                                  pb::PortList* reply) {
  std::optional<Address> local;
  if (!request->id().empty()) {
    const Result<Address> parsed = Address::Parse(request->id());
    if (!parsed.ok()) {
      Unary* reactor = context->DefaultReactor();
      reactor->Finish(
          {grpc::StatusCode::INVALID_ARGUMENT,
           "\"" + request->id() + "\" is no port; expected one like 10.0.0.1:7000 or [::1]:7000"});
      return reactor;
    }
    local = parsed.value();
  }
  return Snapshot(context, [this, local, reply]() -> std::function<void()> {
    return [rows = Shared(shell_.core().Ports()), local, reply] {
      for (const core::PortRow& row : *rows) {
        if (!local || row.local == *local) ToProto(row, reply->add_items());
      }
    };
  });
}

grpc::ServerUnaryReactor* AdminService::ListSessions(Context* context, const pb::ListRequest* request,
                                                     pb::SessionList* reply) {
  const Wanted wanted = WantedId('s', request->id());
  if (!wanted.good) return BadId(context, 's', request->id());
  return Snapshot(context, [this, wanted, reply]() -> std::function<void()> {
    return [rows = Shared(shell_.core().Sessions()), wanted, reply, now = loop_.clock().Now()] {
      for (const core::SessionRow& row : *rows) {
        if (wanted.Is(static_cast<std::uint64_t>(row.id))) ToProto(row, now, reply->add_items());
      }
    };
  });
}

}  // namespace nd::service
