// SPDX-License-Identifier: Apache-2.0
// The fake wire keeps one Link per attempt; it loses, delays or fails messages as the test sets.
#include "daemon/core/core_harness.h"

#include <utility>

namespace nd::core {

provider::AdapterDescription TestAdapter(const std::string& name, const std::vector<std::string>& ips) {
  provider::AdapterDescription d;
  d.info.name = name;
  d.info.provider = "fake";
  d.info.max_inbound_read_limit = 16;
  d.info.max_outbound_read_limit = 16;
  d.info.max_receive_queue_depth = 1024;
  d.info.max_initiator_queue_depth = 1024;
  d.info.max_caller_data = 240;
  d.info.max_callee_data = 200;
  for (const std::string& ip : ips) d.info.addresses.push_back(Ip(ip));
  return d;
}

Bytes World::ProofOf(const ConnectionFacts& facts) {
  const std::string text = "key " + facts.adapter + " " + facts.local.ToString() + " " +
                           facts.remote.ToString() + (facts.passive ? " passive " : " active ") +
                           std::to_string(facts.uid);
  return {text.begin(), text.end()};
}

ReattachOp World::Returning(const Client& client, const std::string& local, const std::string& remote,
                            bool passive, const ReadLimits& limits) {
  ReattachOp op{client.adapter, Qp(client), Ip(local), Ip(remote), limits, passive};
  op.proof = ProofOf({client.adapter_name, op.local, op.remote, passive, client.uid});
  return op;
}

World::World(int hosts, const Settings& settings, const Policy& policy, std::uint32_t reclaim_slice)
    : settings_(settings), policy_(policy), reclaim_slice_(reclaim_slice) {
  pending_.status = Status(StatusCode::kPending);
  for (int h = 0; h < hosts; ++h) {
    hosts_.emplace_back();
    hosts_.back().broker = MakeBroker(h, 7, {}, now_ + kGrace);
  }
}

std::unique_ptr<Broker> World::MakeBroker(int host, std::uint32_t epoch, std::vector<Lease> leases,
                                          Time until) {
  const std::string n = std::to_string(host);
  Broker::Options options;
  options.boot_epoch = epoch;
  options.seed = 42;
  options.settings = settings_;
  options.reclaim_slice = reclaim_slice_;
  options.policy = policy_;
  options.adapters = {TestAdapter("a0", {"10.0." + n + ".1", "10.0." + n + ".2", "fd00::" + n + "1"}),
                      TestAdapter("a1", {"10.1." + n + ".1"})};
  options.leases = std::move(leases);
  options.leases_until = until;
  options.grace = kGrace;
  options.prove = [](const ConnectionFacts& facts) { return ProofOf(facts); };
  options.owner_uid = 1000;
  options.spares = &board_;
  options.may_come_back = [this](const Process& holder) { return !ended.contains(holder.pid); };
  return std::make_unique<Broker>(std::move(options));
}

std::vector<Lease> World::Leases(int host) const {
  std::vector<Lease> held;
  for (const Action& action : hosts_[static_cast<std::size_t>(host)].log) {
    if (const auto* taken = std::get_if<LeaseTaken>(&action)) held.push_back(taken->lease);
    if (const auto* freed = std::get_if<LeaseFreed>(&action)) {
      std::erase_if(held,
                    [&](const Lease& l) { return l.adapter == freed->adapter && l.local == freed->local; });
    }
  }
  return held;
}

void World::Restart(int host, const std::vector<Lease>& leases, Duration grace) {
  Host& h = hosts_[static_cast<std::size_t>(host)];
  h.broker = MakeBroker(host, 8 + lives_++, leases, now_ + grace);
  h.log.clear();
  EXPECT_EQ(h.broker->CheckInvariants(), "");
}

void World::KeepPorts() {
  auto adapters = broker().Adapters();
  adapters[0].description.reserve_ports = adapters[0].description.keep_ports = true;
  Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
}

std::vector<std::string> World::HostPorts(int host) const {
  std::vector<std::string> ports;
  std::map<provider::EndpointId, std::string> asked;
  for (const Action& action : Log(host)) {
    if (const auto* reserve = std::get_if<CmReserve>(&action)) {
      ports.push_back("+" + (asked[reserve->endpoint] = reserve->local.ToString()));
    } else if (const auto* release = std::get_if<CmRelease>(&action)) {
      ports.push_back("-" + asked.at(release->endpoint));
    }
  }
  return ports;
}

World::Client World::Open(int host, std::uint32_t uid, std::uint32_t pid, const std::string& adapter) {
  const SessionId id{next_session_++};
  Identity who;
  who.uid = uid;
  who.pid = pid != 0 ? pid : 10000 + static_cast<std::uint32_t>(id);
  who.command = "test";
  who.foreign_network = open_foreign;
  who.network = open_network;
  if (open_ahead) who.features = session::kClientSpares;
  who.foreign_namespace = open_foreign_namespace;
  who.born = open_born;
  Step(host, SessionOpened{id, who});
  Client client{host, id, {}, uid, adapter};
  client.adapter = Call(client, OpenAdapterOp{adapter, {}}).reply.handle;
  return client;
}

void World::Die(const Client& client) {
  Step(client.host, SessionClosed{client.session});
  // The kernel closes the transports of the dead process, which the other ends notice.
  for (const std::unique_ptr<Link>& link : links_) {
    for (const int side : {0, 1}) {
      const bool dead = link->connectors[side] && link->hosts[side] == client.host &&
                        link->sessions[side] == client.session;
      if (!dead || !link->connectors[1 - side]) continue;
      link->connectors[side] = {};
      Report(*link, 1 - side, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerProcessDied);
    }
  }
  Drain();
}

OpId World::Submit(const Client& client, Operation op) {
  const OpId id = next_op_++;
  Step(client.host, ClientOp{client.session, id, std::move(op)});
  return id;
}

void World::Resubmit(const Client& client, OpId id, Operation op) {
  Step(client.host, ClientOp{client.session, id, std::move(op)});
}

bool World::Done(const Client& client, OpId id) const {
  return !Result(client, id).status.pending();
}

const Complete& World::Result(const Client& client, OpId id) const {
  const Host& host = hosts_[static_cast<std::size_t>(client.host)];
  const auto s = host.completions.find(client.session);
  if (s == host.completions.end()) return pending_;
  const auto c = s->second.find(id);
  return c == s->second.end() ? pending_ : c->second;
}

std::vector<OpId> World::completion_order(const Client& client) const {
  const auto& order = hosts_[static_cast<std::size_t>(client.host)].order;
  const auto found = order.find(client.session);
  return found == order.end() ? std::vector<OpId>{} : found->second;
}

template <typename Make>
Handle World::New(const Client& client, SpareKind kind, const Make& make) {
  const std::uint32_t spare = board_.Take(client.session, kind).first;
  const OpId id = Submit(client, make(spare));
  const Complete& made = Result(client, id);
  if (spare == 0) return made.reply.handle;
  EXPECT_NE(made.status.code(), StatusCode::kInsufficientResources) << "a spare is never refused";
  return Handle::NameOf(id);
}
Handle World::Qp(const Client& client) {
  return New(client, SpareKind::kQueuePair, [&](std::uint32_t spare) {
    return CreateQueuePairOp{client.adapter, 16, 16, 0, spare};
  });
}
Handle World::Connector(const Client& client) {
  return New(client, SpareKind::kConnector, [&](std::uint32_t spare) {
    return CreateConnectorOp{client.adapter, spare};
  });
}

std::pair<std::uint32_t, std::uint32_t> FakeBoard::Take(SessionId session, SpareKind kind) {
  for (std::uint32_t i = 0; i < provider::kSpares; ++i) {
    if (const std::uint32_t value = std::exchange(words[{session, kind, i}], 0)) return {i + 1, value};
  }
  return {};
}

std::size_t FakeBoard::Offered(SessionId session, SpareKind kind) const {
  std::size_t offered = 0;
  for (const auto& [key, value] : words) {
    offered += std::get<0>(key) == session && std::get<1>(key) == kind && value != 0;
  }
  return offered;
}

Handle World::Bound(const Client& client, const std::string& local) {
  const Handle c = Connector(client);
  EXPECT_EQ(Try(client, BindOp{c, Ip(local)}), StatusCode::kSuccess) << local;
  return c;
}

Handle World::Listener(const Client& client, const std::string& local, std::uint32_t backlog) {
  const Handle l = Call(client, CreateListenerOp{client.adapter}).reply.handle;
  EXPECT_EQ(Try(client, BindOp{l, Ip(local)}), StatusCode::kSuccess);
  EXPECT_EQ(Try(client, ListenOp{l, backlog, {}, false}), StatusCode::kSuccess);
  return l;
}

Handle World::NdkListener(const Client& client, const std::string& local) {
  const Handle l = Call(client, CreateListenerOp{client.adapter}).reply.handle;
  EXPECT_EQ(Try(client, ListenOp{l, 0, Ip(local), true}), StatusCode::kSuccess);
  return l;
}

Handle World::Endpoint(const Client& client, const std::string& local) {
  return Call(client, CreateSharedEndpointOp{client.adapter, Ip(local)}).reply.handle;
}

OpId World::Connect(const Client& client, Handle connector, Handle qp, const std::string& remote,
                    const std::string& data) {
  ConnectOp op;
  op.connector = connector;
  op.queue_pair = qp;
  op.remote = Ip(remote);
  op.limits = {16, 16};
  op.private_data = Data(data);
  op.private_data_length = static_cast<std::uint32_t>(data.size());
  return Submit(client, op);
}

Handle World::Incoming(const Client& client, Handle listener) {
  const Handle c = Connector(client);
  EXPECT_EQ(Try(client, GetConnectionRequestOp{listener, c}), StatusCode::kSuccess);
  return c;
}

ConnectorState World::State(const Client& client, Handle connector) const {
  for (const ConnectionRow& row : broker(client.host).Connections()) {
    if (row.id == connector) return row.state;
  }
  ADD_FAILURE() << "no such connector";
  return ConnectorState::kDead;
}

World::Up World::Pair(Stage stage, const std::string& local) {
  Up up;
  const int passive = hosts_.size() > 1 ? 1 : 0;
  up.a = Open(0);
  up.p = Open(passive);
  if (pair_has_older_connectors) {
    Connector(up.a);
    Connector(up.p);
  }
  const std::string ip = "10.0." + std::to_string(passive) + ".1:7000";
  up.listener = Listener(up.p, ip);
  up.aq = Qp(up.a);
  up.pq = Qp(up.p);
  up.ac = Bound(up.a, local);
  if (stage == Stage::kListening) return up;
  const OpId connect = Connect(up.a, up.ac, up.aq, ip, "hello");
  if (stage == Stage::kConnecting) return up;
  up.pc = Incoming(up.p, up.listener);
  if (stage == Stage::kIncoming) return up;
  AcceptOp accept{up.pc, up.pq, {16, 16}, Data("welcome"), 7, false};
  const OpId accepted = Submit(up.p, accept);
  EXPECT_EQ(Code(up.a, connect), StatusCode::kSuccess);
  if (stage == Stage::kReplied) return up;
  EXPECT_EQ(Try(up.a, CompleteConnectOp{up.ac, false}), StatusCode::kSuccess);
  EXPECT_EQ(Code(up.p, accepted), StatusCode::kSuccess);
  if (stage == Stage::kConnected) return up;
  EXPECT_EQ(Try(up.a, DisconnectOp{up.ac}), StatusCode::kSuccess);
  return up;
}

void World::Step(int host, const Event& event) {
  Post(host, event);
  Drain();
}

void World::Drain() {
  if (draining_) return;
  draining_ = true;
  while (!queue_.empty()) {
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    Host& host = hosts_[static_cast<std::size_t>(next.host)];
    Actions actions;
    host.broker->Step(now_, next.event, &actions);
    if (check_always) {
      const std::string broken = host.broker->CheckInvariants();
      EXPECT_EQ(broken, "");
      if (!broken.empty()) std::abort();
    }
    for (const Action& action : actions) {
      if (keep_trace) {
        trace_ += std::to_string(next.host) + ":" + std::to_string(action.index());
        if (const auto* c = std::get_if<Complete>(&action)) {
          trace_ += " " + std::to_string(c->op_id) + " " + c->status.ToString() + " " +
                    std::to_string(c->reply.handle.value) + " " + c->reply.address.ToString();
        } else if (const auto* n = std::get_if<Notice>(&action)) {
          trace_ += " " + std::string(n->type) + " " + n->object + " " + n->message;
        } else if (const auto* k = std::get_if<CmConnect>(&action)) {
          trace_ += " " + std::to_string(static_cast<std::uint64_t>(k->params.id)) + " " +
                    k->params.local.ToString();
        }
        trace_ += "\n";
      }
      Act(next.host, action);
    }
    for (std::size_t h = 0; reclaim_at_once && queue_.empty() && h < hosts_.size(); ++h) {
      if (hosts_[h].broker->reclaiming()) Post(static_cast<int>(h), ReclaimSome{});
    }
  }
  draining_ = false;
}

World::Link* World::Find(int host, CmId id, int* side) {
  const auto found = by_id_.find({host, static_cast<std::uint64_t>(id)});
  if (found == by_id_.end()) return nullptr;
  *side = found->second->hosts[0] == host && found->second->ids[0] == id ? 0 : 1;
  return found->second;
}

World::Link* World::Find(int host, Handle connector, int* side) {
  const auto found = by_connector_.find({host, connector});
  if (found == by_connector_.end()) return nullptr;
  *side = found->second->hosts[0] == host && found->second->connectors[0] == connector ? 0 : 1;
  return found->second;
}

// The client half reports the event of its transport while the client lives.
void World::Report(Link& link, int side, TransportReportOp::What what, DisconnectReason reason) {
  if (!link.connectors[side]) return;
  const Event event =
      ClientOp{link.sessions[side], next_op_++, TransportReportOp{link.connectors[side], what, reason, {}}};
  if (delay_goodbyes) {
    held_.push_back({link.hosts[side], event});
  } else {
    Post(link.hosts[side], event);
  }
}

void World::ReleaseGoodbyes() {
  for (Queued& q : held_) queue_.push_back(std::move(q));
  held_.clear();
  Drain();
}

void World::Act(int host, const Action& action) {
  Host& h = hosts_[static_cast<std::size_t>(host)];
  h.log.push_back(action);
  int side = 0;
  if (const auto* complete = std::get_if<Complete>(&action)) {
    h.order[complete->session].push_back(complete->op_id);
    h.completions[complete->session][complete->op_id] = *complete;
  } else if (const auto* reserve = std::get_if<CmReserve>(&action)) {
    const auto answer = reserve_answers.find(reserve->local.port());
    const StatusCode code = answer == reserve_answers.end() ? StatusCode::kSuccess : answer->second;
    if (answer_reserves) Post(host, CmReserved{reserve->endpoint, {code, "host"}});
  } else if (const auto* connect = std::get_if<CmConnect>(&action)) {
    if (wire_is_cut) return;
    if (fail_connects) {
      Post(host, CmFailed{connect->params.id, *fail_connects});
      return;
    }
    // 10.x.<host>.y
    const int to = connect->params.remote.ip().size() == 4 ? connect->params.remote.ip()[2] : host;
    if (to < 0 || to >= static_cast<int>(hosts_.size())) {
      Post(host, CmFailed{connect->params.id, {StatusCode::kNetworkUnreachable, "no such host"}});
      return;
    }
    auto link = std::make_unique<Link>();
    link->hosts[0] = host;
    link->hosts[1] = to;
    link->ids[0] = connect->params.id;
    link->ids[1] = CmId{provider::kInboundBit | hosts_[static_cast<std::size_t>(to)].next_inbound++};
    by_id_[{host, static_cast<std::uint64_t>(link->ids[0])}] = link.get();
    by_id_[{to, static_cast<std::uint64_t>(link->ids[1])}] = link.get();
    provider::InboundRequest request;
    request.id = link->ids[1];
    request.adapter =
        connect->params.remote.ip().size() == 4 && connect->params.remote.ip()[1] == 1 ? "a1" : "a0";
    request.local = connect->params.remote;
    request.remote = connect->params.local;
    request.peer_offer = connect->params.offer;
    request.private_data = connect->params.private_data;
    links_.push_back(std::move(link));
    Post(to, CmRequested{request});
  } else if (const auto* accept = std::get_if<CmAccept>(&action)) {
    Link* const link = Find(host, accept->id, &side);
    if (link == nullptr || wire_is_cut) return;
    Post(link->hosts[0], CmReplied{link->ids[0], true, accept->params.limits, accept->params.private_data});
  } else if (const auto* reject = std::get_if<CmReject>(&action)) {
    Link* const link = Find(host, reject->id, &side);
    if (link == nullptr || wire_is_cut) return;
    if (side == 1) {
      Post(link->hosts[0],
           CmRejected{
               link->ids[0], {StatusCode::kConnectionRefused, "", reject->detail}, reject->private_data});
    } else {
      Post(link->hosts[1],
           CmLost{link->ids[1], {StatusCode::kConnectionAborted, "", reject->detail}, reject->private_data});
    }
    by_id_.erase({link->hosts[0], static_cast<std::uint64_t>(link->ids[0])});
    by_id_.erase({link->hosts[1], static_cast<std::uint64_t>(link->ids[1])});
  } else if (const auto* confirm = std::get_if<CmConfirm>(&action)) {
    Link* const link = Find(host, confirm->id, &side);
    if (link == nullptr) {
      Post(host, CmLost{confirm->id, {StatusCode::kConnectionAborted, "", Detail::kPeerWithdrew}, {}});
      return;
    }
    if (wire_is_cut) return;
    link->up = true;
    Post(link->hosts[0], CmEstablished{link->ids[0]});
    Post(link->hosts[1], CmEstablished{link->ids[1]});
  } else if (const auto* hand_off = std::get_if<HandOffTo>(&action)) {
    Link* const link = Find(host, hand_off->id, &side);
    if (link == nullptr) return;
    link->connectors[side] = hand_off->connector;
    link->sessions[side] = hand_off->session;
    by_connector_[{host, hand_off->connector}] = link;
  } else if (const auto* abort = std::get_if<CmAbort>(&action)) {
    Link* const link = Find(host, abort->id, &side);
    if (link == nullptr) return;
    by_id_.erase({host, static_cast<std::uint64_t>(abort->id)});
    if (wire_is_cut) return;
    if (!link->up) {
      Post(link->hosts[1 - side],
           CmLost{link->ids[1 - side], {StatusCode::kConnectionAborted, "", Detail::kPeerWithdrew}, {}});
    } else if (!link->connectors[side]) {
      Report(*link, 1 - side, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerProcessDied);
    }
  } else if (const auto* command = std::get_if<SendTransportCommand>(&action)) {
    Link* const link = Find(host, command->connector, &side);
    if (link == nullptr) return;
    if (command->what == SendTransportCommand::What::kPrepare) return;  // The test answers.
    if (command->what == SendTransportCommand::What::kDrop) {
      if (!wire_is_cut) {
        Report(*link, 1 - side, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerProcessDied);
      }
      return;
    }
    if (!clients_answer) return;
    if (!wire_is_cut) {
      Report(*link, 1 - side, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerDisconnected);
    }
    Report(*link, side, TransportReportOp::What::kDisconnectDone, DisconnectReason::kUnknown);
  } else if (const auto* end = std::get_if<EndSession>(&action)) {
    Post(host, SessionClosed{end->session});
  }
}

void World::Advance(Duration by) {
  const Time until = now_ + by;
  for (;;) {
    int due = -1;
    Time when = until;
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
      const std::optional<Time> next = hosts_[h].broker->NextDeadline();
      if (next && *next <= when) {
        when = *next;
        due = static_cast<int>(h);
      }
    }
    if (due < 0) break;
    now_ = std::max(now_, when);
    Step(due, Tick{});
  }
  now_ = until;
}

void World::ClearLog() {
  for (Host& host : hosts_) host.log.clear();
}

std::vector<provider::AdapterDescription> AdaptersOf(const World& w, int host) {
  std::vector<provider::AdapterDescription> adapters;
  for (const AdapterRow& row : w.broker(host).Adapters()) adapters.push_back(row.description);
  return adapters;
}

Complete BindNew(World& w, const World::Client& c, const std::string& local) {
  return w.Call(c, BindOp{w.Connector(c), Ip(local)});
}

StatusCode ListenNew(World& w, const World::Client& c, const std::string& local) {
  const Handle l = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  return w.Try(c, ListenOp{l, 0, Ip(local), false});
}

}  // namespace nd::core
