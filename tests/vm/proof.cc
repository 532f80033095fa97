// SPDX-License-Identifier: Apache-2.0
// verbs_proof [ADAPTER]...: drives both halves of the verbs provider on real kernel RDMA devices, without a
// daemon. One line per scenario; exit code 1 when one failed.
#include "tests/vm/proof.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nd::vm {

void Case::Check(bool holds, const char* what, int line) {
  if (!holds) failures_ += std::string("\n     line ") + std::to_string(line) + ": " + what;
}

bool Case::Report(const std::string& adapter) const {
  std::printf("%s %s: %s%s\n", failures_.empty() ? "ok  " : "FAIL", adapter.c_str(), name_.c_str(),
              failures_.c_str());
  std::fflush(stdout);
  return failures_.empty();
}

Pair ConnectPair(World& world, const AdapterInfo& adapter, Case& c, ReadLimits offer, ReadLimits accept,
                 const Bytes& request_data, const Bytes& reply_data) {
  Pair pair;
  pair.active = world.MakeSide(adapter);
  pair.passive = world.MakeSide(adapter);
  const Address here = adapter.addresses.at(0);
  const Address server = here.WithPort(world.next_port()), client = here.WithPort(world.next_port());
  pair.listen_endpoint = world.next_endpoint();
  pair.connect_endpoint = world.next_endpoint();
  ND_CHECK(c, world.Reserve(pair.listen_endpoint, adapter.name, server).ok());
  ND_CHECK(c, world.Reserve(pair.connect_endpoint, adapter.name, client).ok());
  world.Listen(pair.listen_endpoint, adapter.name, server);
  for (int i = 0; i < 8; ++i) {
    const Sge sge = pair.passive.sge(32768 + 1024 * static_cast<std::size_t>(i), 1024);
    ND_CHECK(c, pair.passive.qp->Receive(reinterpret_cast<void*>(100 + i), {&sge, 1}).ok());
  }
  pair.active_id =
      world.Connect(adapter, pair.connect_endpoint, client, server, pair.active, offer, request_data);
  const auto request = world.NextRequest();
  if (!request) {
    std::printf("     no request: %s\n", world.Of(pair.active_id).status.ToString().c_str());
    ND_CHECK(c, request.has_value());
    return pair;
  }
  pair.request = *request;
  pair.passive_id = request->id;
  ND_CHECK(c, request->local == server);
  ND_CHECK(c, request->remote == client);
  ND_CHECK(c, request->private_data == request_data);
  ND_CHECK(c, request->peer_offer == offer);
  world.Accept(request->id, pair.passive, accept, reply_data);
  const bool replied = world.Wait(pair.active_id, [](const Told& t) { return t.replied || t.finished; });
  pair.reply = world.Of(pair.active_id);
  ND_CHECK(c, replied && pair.reply.replied);
  if (!pair.reply.replied) {
    std::printf("     active: %s\n     passive: %s\n", pair.reply.status.ToString().c_str(),
                world.Of(pair.passive_id).status.ToString().c_str());
    return pair;
  }
  ND_CHECK(c, pair.reply.data == reply_data);
  c.Check(pair.reply.peer == accept,
          ("the peer's limits are " + std::to_string(pair.reply.peer.inbound) + "/" +
           std::to_string(pair.reply.peer.outbound))
              .c_str(),
          __LINE__);
  world.Confirm(pair.active_id);
  const auto up = [](const Told& t) { return t.established || t.finished; };
  ND_CHECK(c, world.Wait(pair.active_id, up) && world.Of(pair.active_id).established);
  ND_CHECK(c, world.Wait(pair.passive_id, up) && world.Of(pair.passive_id).established);
  if (!world.Of(pair.active_id).established || !world.Of(pair.passive_id).established) {
    std::printf("     active: %s\n     passive: %s\n", world.Of(pair.active_id).status.ToString().c_str(),
                world.Of(pair.passive_id).status.ToString().c_str());
    return pair;
  }
  ND_CHECK(c, world.Attach(pair.active_id, pair.active, accept.inbound).ok());
  ND_CHECK(c, world.Attach(pair.passive_id, pair.passive, accept.outbound).ok());
  pair.up = true;
  return pair;
}

void ReleaseEndpoints(World& world, const Pair& pair) {
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    cm.Unlisten(pair.listen_endpoint);
    cm.Release(pair.listen_endpoint);
    cm.Release(pair.connect_endpoint);
  });
}

void EndPair(World& world, Case& c, Pair& pair) {
  world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Disconnect(pair.active_id); });
  ND_CHECK(c, world.Wait(pair.active_id, [](const Told& t) { return t.disconnected; }));
  ND_CHECK(c, world.Of(pair.active_id).status.ok());
  ND_CHECK(c, world.Wait(pair.passive_id, [](const Told& t) { return t.peer_closed; }));
  pair.active.qp->Drop();
  pair.passive.qp->Drop();
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    cm.Abort(pair.active_id);
    cm.Abort(pair.passive_id);
  });
  ReleaseEndpoints(world, pair);
}

namespace {

Bytes Pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 + 7);
  return bytes;
}

void PrintAdapter(const AdapterInfo& a) {
  std::printf(
      "     %s: %s, sge %u read sge %u, depth %u, cq %u, srq %u, inline %u, transfer %u, reads %u/%u, "
      "private data %u/%u, windows %s, cq resize %s\n",
      a.name.c_str(), a.addresses.empty() ? "no address" : a.addresses[0].IpToString().c_str(),
      a.max_initiator_sge, a.max_read_sge, a.max_initiator_queue_depth, a.max_completion_queue_depth,
      a.max_shared_receive_queue_depth, a.max_inline_data_size, a.max_transfer_length,
      a.max_inbound_read_limit, a.max_outbound_read_limit, a.max_caller_data, a.max_callee_data,
      a.max_window_size > 0 ? "yes" : "no", (a.flags & kAdapterCqResize) != 0 ? "yes" : "no");
}

void LifeScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Pair pair = ConnectPair(world, adapter, c);
  if (pair.up) EndPair(world, c, pair);
}

void PrivateDataScenario(World& world, const AdapterInfo& adapter, Case& c) {
  for (const std::uint32_t size : {1u, adapter.max_caller_data}) {
    Pair pair = ConnectPair(world, adapter, c, {16, 16}, {16, 16}, Pattern(size),
                            Pattern(std::min(size, adapter.max_callee_data)));
    if (pair.up) EndPair(world, c, pair);
  }
}

void ZeroLimitsScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Pair pair = ConnectPair(world, adapter, c, {0, 0}, {0, 0});
  if (!pair.up) return;
  const Sge sge = pair.active.sge(0, 8);
  ND_CHECK(c,
           pair.active.qp
                   ->Read(nullptr, {&sge, 1}, pair.passive.address(0), pair.passive.region->remote_token(), 0)
                   .code() == StatusCode::kInvalidDeviceRequest);
  EndPair(world, c, pair);
}

struct Half {
  Side active, passive;
  EndpointId listen{}, connect{};
  Address server, client;
};

Half Prepare(World& world, const AdapterInfo& adapter, Case& c, bool listen) {
  Half half;
  half.active = world.MakeSide(adapter);
  half.passive = world.MakeSide(adapter);
  half.server = adapter.addresses.at(0).WithPort(world.next_port());
  half.client = adapter.addresses.at(0).WithPort(world.next_port());
  half.listen = world.next_endpoint();
  half.connect = world.next_endpoint();
  if (listen) {
    ND_CHECK(c, world.Reserve(half.listen, adapter.name, half.server).ok());
    world.Listen(half.listen, adapter.name, half.server);
  }
  ND_CHECK(c, world.Reserve(half.connect, adapter.name, half.client).ok());
  return half;
}

void GiveBack(World& world, const Half& half) {
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    cm.Release(half.listen);
    cm.Release(half.connect);
  });
}

void RejectScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Half half = Prepare(world, adapter, c, true);
  const auto finished = [](const Told& t) { return t.finished; };
  // The application refuses, with data; then the broker refuses, with a reason; then the retry is accepted.
  for (const bool application : {true, false}) {
    const CmId id = world.Connect(adapter, half.connect, half.client, half.server, half.active, {1, 1}, {});
    const auto request = world.NextRequest();
    ND_CHECK(c, request.has_value());
    if (!request) return;
    world.OnLoop([&](provider::verbs::VerbsCm& cm) {
      if (application) cm.Reject(request->id, Detail::kPeerRejected, Pattern(20));
      if (!application) cm.Reject(request->id, Detail::kBacklogFull, {});
    });
    ND_CHECK(c, world.Wait(id, finished));
    const Told told = world.Of(id);
    ND_CHECK(c, told.status == StatusCode::kConnectionRefused);
    ND_CHECK(c, told.status.detail() == (application ? Detail::kPeerRejected : Detail::kBacklogFull));
    ND_CHECK(c, told.data == (application ? Pattern(20) : Bytes{}));
  }
  GiveBack(world, half);
}

void RefusedScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Half half = Prepare(world, adapter, c, false);
  const CmId id = world.Connect(adapter, half.connect, half.client, half.server, half.active, {1, 1}, {});
  ND_CHECK(c, world.Wait(id, [](const Told& t) { return t.finished; }));
  ND_CHECK(c, world.Of(id).status == StatusCode::kConnectionRefused);
  ND_CHECK(c, world.Of(id).status.detail() == Detail::kNoListener);
  GiveBack(world, half);
}

void ActiveRejectScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Half half = Prepare(world, adapter, c, true);
  const CmId id = world.Connect(adapter, half.connect, half.client, half.server, half.active, {1, 1}, {});
  const auto request = world.NextRequest();
  ND_CHECK(c, request.has_value());
  if (!request) return;
  world.Accept(request->id, half.passive, {1, 1}, {});
  ND_CHECK(c, world.Wait(id, [](const Told& t) { return t.replied; }));
  world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Reject(id, Detail::kPeerRejected, Pattern(5)); });
  if (adapter.technology == RdmaTechnology::kIwarp) {
    // On this wire the connection is established first and then closed.
    ND_CHECK(c, world.Wait(request->id, [](const Told& t) { return t.peer_closed; }));
  } else {
    ND_CHECK(c, world.Wait(request->id, [](const Told& t) { return t.finished; }));
    ND_CHECK(c, world.Of(request->id).status == StatusCode::kConnectionAborted);
    ND_CHECK(c, world.Of(request->id).status.detail() == Detail::kPeerRejected);
    ND_CHECK(c, world.Of(request->id).data == Pattern(5));
  }
  world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Abort(request->id); });
  GiveBack(world, half);
}

void WithdrawScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Half half = Prepare(world, adapter, c, true);
  const CmId id = world.Connect(adapter, half.connect, half.client, half.server, half.active, {1, 1}, {});
  const auto request = world.NextRequest();
  ND_CHECK(c, request.has_value());
  if (!request) return;
  world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Abort(id); });
  // The kernel tells the listening side only when it answers; on iWARP perhaps not even then.
  world.Accept(request->id, half.passive, {1, 1}, {});
  const auto over = [](const Told& t) { return t.finished || t.established; };
  ND_CHECK(c, world.Wait(request->id, over));
  if (adapter.technology != RdmaTechnology::kIwarp) {
    ND_CHECK(c, world.Of(request->id).status == StatusCode::kConnectionAborted);
  }
  world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Abort(request->id); });
  GiveBack(world, half);
}

void ForeignQueuePairScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Half half = Prepare(world, adapter, c, true);
  // Another live process, to which this queue pair does not belong.
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  const CmId stolen = world.Connect(adapter, half.connect, half.client, half.server, half.active, {1, 1}, {},
                                    static_cast<std::uint32_t>(other));
  ND_CHECK(c, world.Wait(stolen, [](const Told& t) { return t.finished; }));
  ND_CHECK(c, world.Of(stolen).status == StatusCode::kAccessDenied);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  GiveBack(world, half);
}

// Up to Linux 6.1 the kernel records the thread that created a queue pair as its owner and drops the record
// when the thread ends.
void EndedThreadScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Half half = Prepare(world, adapter, c, true);
  Side side;
  std::thread([&] { side = world.MakeSide(adapter); }).join();
  const CmId id = world.Connect(adapter, half.connect, half.client, half.server, side, {1, 1}, {});
  const auto request = world.NextRequest();
  c.Check(request.has_value(), world.Of(id).status.ToString().c_str(), __LINE__);
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    if (request) cm.Abort(request->id);
    cm.Abort(id);
  });
  world.Forget({id});
  GiveBack(world, half);
}

void PortScenario(World& world, const AdapterInfo& adapter, Case& c) {
  const Address address = adapter.addresses.at(0).WithPort(world.next_port());
  const Address any = Address::V4({0, 0, 0, 0}, address.port());
  const EndpointId first = world.next_endpoint(), second = world.next_endpoint(),
                   third = world.next_endpoint();
  ND_CHECK(c, world.Reserve(first, adapter.name, address).ok());
  ND_CHECK(c, world.Reserve(second, adapter.name, address) == StatusCode::kSharingViolation);
  world.Listen(first, adapter.name, address);
  world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Release(first); });
  // The old id is still being destroyed, and the new one waits for it.
  ND_CHECK(c, world.Reserve(third, adapter.name, any).ok());
  world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Release(third); });
}

using Scenario = void (*)(World&, const AdapterInfo&, Case&);
struct Row {
  const char* name;
  Scenario run;
};
constexpr Row kRows[] = {
    {"connect, accept, complete, disconnect", LifeScenario},
    {"private data, exact lengths", PrivateDataScenario},
    {"read limits of zero", ZeroLimitsScenario},
    {"send, write, read, inline, silent", DataScenario},
    {"shared receive queue", SharedReceiveScenario},
    {"memory window", WindowScenario},
    {"protection error, disconnect notice", ErrorScenario},
    {"flush before and after", FlushScenario},
    {"reject by application and by broker", RejectScenario},
    {"nobody listens", RefusedScenario},
    {"reject after the reply", ActiveRejectScenario},
    {"withdraw before the answer", WithdrawScenario},
    {"queue pair of another process", ForeignQueuePairScenario},
    {"queue pair of a thread that has ended", EndedThreadScenario},
    {"ports", PortScenario},
    {"rping server", RpingServerScenario},
    {"rping client", RpingClientScenario},
};

bool Shell(const char* command) {
  return std::system(command) == 0;
}

bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 200; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// A device appears, gets another address, is used, and is removed while it has connections.
void HotPlugScenario(World& world, const std::string& type, Case& c) {
  const std::string name = type + "hot", net = type + "d9";
  const std::string subnet = type == "rxe" ? "10.9.8." : "10.9.9.";
  const auto adapter = [&] { return world.Adapter(name); };
  ND_CHECK(c, !adapter().has_value());
  ND_CHECK(c, Shell(("ip link add " + net + " type dummy && ip addr add " + subnet + "1/24 dev " + net +
                     " && ip link set " + net + " up && rdma link add " + name + " type " + type +
                     " netdev " + net)
                        .c_str()));
  ND_CHECK(c, Eventually([&] { return adapter() && adapter()->addresses.size() == 1; }));
  ND_CHECK(c, Shell(("ip addr add " + subnet + "2/24 dev " + net).c_str()));
  ND_CHECK(c, Eventually([&] { return adapter() && adapter()->addresses.size() == 2; }));
  ND_CHECK(c, Shell(("ip addr del " + subnet + "2/24 dev " + net).c_str()));
  ND_CHECK(c, Eventually([&] { return adapter() && adapter()->addresses.size() == 1; }));
  // A port that is down offers no address; the address returns when the port is up.
  ND_CHECK(c, Shell(("ip link set " + net + " down").c_str()));
  ND_CHECK(c, Eventually([&] { return adapter() && adapter()->addresses.empty(); }));
  ND_CHECK(c, Shell(("ip link set " + net + " up").c_str()));
  ND_CHECK(c, Eventually([&] { return adapter() && adapter()->addresses.size() == 1; }));
  if (!adapter()) return;
  {
    Pair pair = ConnectPair(world, *adapter(), c);
    // In the background, because the kernel waits until every user has released the device.
    std::thread removal([&] { ND_CHECK(c, Shell(("rdma link delete " + name).c_str())); });
    ND_CHECK(c, world.Wait(pair.active_id, [](const Told& t) { return t.peer_closed; }));
    ND_CHECK(c, world.Wait(pair.passive_id, [](const Told& t) { return t.peer_closed; }));
    pair.active = pair.passive = {};
    world.Forget({pair.active_id, pair.passive_id});
    ND_CHECK(c, Eventually([&] { return !adapter().has_value(); }));
    world.OnLoop([&](provider::verbs::VerbsCm& cm) {
      cm.Abort(pair.active_id);
      cm.Abort(pair.passive_id);
    });
    ReleaseEndpoints(world, pair);
    removal.join();
  }
  ND_CHECK(c, Shell(("ip link delete " + net).c_str()));
}

// `only`: a scenario by its name, as often as `times` says; null: all of them once.
int Run(const std::vector<std::string>& adapters, const char* only, int times) {
  World world;
  int failed = 0, passed = 0;
  for (const std::string& name : adapters) {
    const auto adapter = world.Adapter(name);
    if (!adapter || adapter->addresses.empty()) {
      std::printf("FAIL %s: no such adapter, or it has no address\n", name.c_str());
      ++failed;
      continue;
    }
    PrintAdapter(*adapter);
    for (const Row& row : kRows) {
      if (only != nullptr && std::strcmp(only, row.name) != 0) continue;
      for (int i = 0; i < times; ++i) {
        Case c(row.name);
        row.run(world, *adapter, c);
        c.Report(name) ? ++passed : ++failed;
      }
    }
  }
  for (const char* type : {"rxe", "siw"}) {
    if (only != nullptr) break;
    Case c("device and addresses come and go");
    HotPlugScenario(world, type, c);
    c.Report(type) ? ++passed : ++failed;
  }
  std::printf("verbs_proof: %d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nd::vm

// verbs_proof [--only SCENARIO TIMES] [ADAPTER...]
int main(int argc, char** argv) {
  std::vector<std::string> adapters(argv + 1, argv + argc);
  const char* only = nullptr;
  int times = 1;
  if (adapters.size() >= 3 && adapters[0] == "--only") {
    only = argv[2];
    times = std::atoi(argv[3]);
    adapters.erase(adapters.begin(), adapters.begin() + 3);
  }
  if (adapters.empty()) adapters = {"rxe0", "siw0"};
  return nd::vm::Run(adapters, only, times);
}
