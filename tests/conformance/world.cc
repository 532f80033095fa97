// SPDX-License-Identifier: Apache-2.0
// Brokers and clients are kept from case to case, because starting them costs more than a case. Each case
// must leave them unchanged, which is a property under test anyway.
#include "tests/conformance/world.h"

#include <cstdio>
#include <cstdlib>

#include "base/os/self.h"

namespace nd::conformance {
namespace {

std::map<Transport, std::unique_ptr<World>>& SharedWorlds() {
  static std::map<Transport, std::unique_ptr<World>> worlds;
  return worlds;
}

// Outside a private network another program may hold the port.
std::uint16_t TcpPort(int world) {
  const int first = InPrivateNetwork() ? 4794 : 20000 + static_cast<int>(os::ProcessNumber() % 5000);
  return static_cast<std::uint16_t>(first + world % 1000);
}

constexpr char kAllowEverything[] =
    "name = \"tests\"\nquota = { sessions = 1000000, connectors = 1000000, listeners = 1000000, "
    "shared-endpoints = 1000000, queue-pairs = 1000000, ports = 1000000 }";

}  // namespace

std::vector<Transport>& Transports() {
  static std::vector<Transport> transports = {Transport::kLocal, Transport::kIwarp};
  return transports;
}

std::string NameOf(Transport transport) {
  switch (transport) {
    case Transport::kLocal:
      return "Local";
    case Transport::kIwarp:
      return "Iwarp";
    case Transport::kVerbs:
      return "Verbs";
    case Transport::kPods:
      return "Pods";
    case Transport::kPodHost:
      return "PodHost";
    case Transport::kHostPod:
      return "HostPod";
  }
  return "?";
}

bool Full() {
  return std::getenv("NDBROKER_FULL") != nullptr;
}
int Rounds(int by_default, int full, int emulated) {
  if (Full()) return full;
  const bool slow_machine = Scaled(milliseconds(1000)) > milliseconds(1000);
  return slow_machine ? emulated : by_default;
}

::testing::AssertionResult Matches(const Status& status, std::initializer_list<StatusCode> any_of) {
  std::string expected;
  for (const StatusCode code : any_of) {
    if (status == code) return ::testing::AssertionSuccess();
    expected += (expected.empty() ? "" : " or ") + std::string(Name(code));
  }
  return ::testing::AssertionFailure() << status.ToString() << ", expected " << expected;
}
::testing::AssertionResult Matches(const Outcome& outcome, std::initializer_list<StatusCode> any_of) {
  return Matches(outcome.Wait(), any_of);
}
::testing::AssertionResult Matches(const Work& work, std::initializer_list<StatusCode> any_of) {
  if (work.status == StatusCode::kPending) return ::testing::AssertionFailure() << "no completion";
  return Matches(Status(work.status), any_of) << " (context " << work.context << ")";
}

World::World(Transport transport, WorldOptions options)
    : transport_(transport), options_(std::move(options)) {
  if (options_.wired && verbs()) {
    wire_ = std::make_unique<Wire>(TheSite().near[0], TheSite().near[1]);
    error_ = wire_->error();
    if (!error_.empty()) return;
  } else if (pods()) {
    MakePods();
    if (!error_.empty()) return;
  } else if (options_.wired) {
    if (!InPrivateNetwork()) {
      error_ = "needs network namespaces: run as root, or allow user namespaces";
      return;
    }
    for (int i = 0; i < 2; ++i) {
      hosts_.push_back(std::make_unique<Namespace>());
      if (!hosts_.back()->ok()) error_ = "cannot make a network namespace";
    }
    if (!error_.empty()) return;
    wire_ = std::make_unique<Wire>(*hosts_[0], "10.77.0.2/24", *hosts_[1], "10.77.0.3/24");
    error_ = wire_->error();
    if (!error_.empty()) return;
  }
  static int worlds = 0;
  number_ = worlds++;
  MakeBrokers();
  if (!error_.empty() || options_.no_clients) return;
  for (int side = 0; side < 2; ++side) Revive(side);
  if (!error_.empty()) return;
  Begin();
}

World::~World() {
  if (error_.empty() && !options_.no_clients) Finish();
  extra_.clear();
  clients_.clear();
  for (const auto& broker : brokers_) {
    if (!broker->running()) continue;
    const bool graceful = broker->Stop();
    if (!graceful) ADD_FAILURE() << "a broker did not end by itself:\n" << broker->log();
  }
}

World& World::Shared(Transport transport) {
  auto& world = SharedWorlds()[transport];
  if (world == nullptr || !world->broker_a().running() || !world->broker_p().running()) {
    world = std::make_unique<World>(transport);
    if (!world->error().empty()) {
      std::fprintf(stderr, "nd_conformance: no world to test in: %s\n", world->error().c_str());
      std::exit(1);
    }
  }
  return *world;
}

void World::Forget() {
  SharedWorlds().clear();
}

// Side 0 has the addresses 2 and 12 of a network, side 1 has 3 and 13. One pair of interfaces joins them.
void World::MakePods() {
  if (!InPrivateNetwork()) {
    error_ = "needs network namespaces: run as root, or allow user namespaces";
    return;
  }
  if (options_.apart || (options_.wired && transport_ != Transport::kPods)) {
    error_ = "the adapter of a served network has no sister, and only two pods have a wire";
    return;
  }
  static int pairs = 0;
  const std::string name = "pod" + std::to_string(pairs);
  if (!options_.wired) {
    net_ = "10.78." + std::to_string(pairs % 250) + ".";
    net6_ = "fd78:" + std::to_string(pairs) + "::";
  }
  ++pairs;
  for (int side = 0; side < 2; ++side) {
    hosts_.push_back(pod(side) ? std::make_unique<Namespace>() : nullptr);
    if (pod(side) && !hosts_.back()->ok()) error_ = "cannot make a network namespace";
  }
  if (options_.wired && error_.empty()) {
    wire_ = std::make_unique<Wire>(*hosts_[0], "10.77.0.2/24", *hosts_[1], "10.77.0.3/24");
    error_ = wire_->error();
    return;
  }
  const auto run = [this](const std::string& arguments, int ns = -1) {
    if (error_.empty()) error_ = nd::testing::Ip(arguments, ns);
  };
  run("link add " + name + "a type veth peer name " + name + "b");
  for (int side = 0; side < 2; ++side) {
    const std::string end = name + (side == 0 ? "a" : "b"), number = std::to_string(side + 2);
    const int ns = hosts_[static_cast<std::size_t>(side)] ? hosts_[static_cast<std::size_t>(side)]->fd() : -1;
    if (ns >= 0) {
      run("link set " + end + " netns " + std::to_string(hosts_[static_cast<std::size_t>(side)]->holder()));
    }
    run("addr add " + net_ + number + "/24 dev " + end, ns);
    run("addr add " + net_ + "1" + number + "/24 dev " + end, ns);
    run("addr add " + net6_ + number + "/64 dev " + end + " nodad", ns);
    run("link set " + end + " up", ns);
  }
}

void World::MakeBrokers() {
  const std::size_t count = (local() && !options_.wired) || pods() ? 1 : 2;
  for (std::size_t i = 0; i < count; ++i) {
    DaemonOptions daemon;
    daemon.sections = options_.sections;
    daemon.sections["limits"] +=
        "\nconnections-per-uid = 100000\nunauthenticated = 4096\n"
        "unauthenticated-per-uid = 4096\n";
    daemon.rules = options_.rules;
    daemon.rules.push_back(kAllowEverything);
    if (pods()) {
      daemon.sections["broker"] += "\nforeign-network-namespaces = \"serve\"\nadmin-namespaces = \"any\"\n";
      if (CanBeAnotherUser()) daemon.uid = 65534;
    }
    brokers_.push_back(
        std::make_unique<Daemon>(verbs() ? Devices(daemon, i) : SoftAdapters(daemon, i, count)));
    brokers_.back()->Launch();
  }
  for (const auto& broker : brokers_) {
    if (broker->AwaitReady()) continue;
    error_ = "a broker does not start:\n" + broker->log();
    ADD_FAILURE() << error_;
    return;
  }
}

DaemonOptions World::SoftAdapters(DaemonOptions daemon, std::size_t i, std::size_t count) const {
  const std::string n = std::to_string(i + 2);
  const std::string port = "tcp-port = " + std::to_string(TcpPort(number_)) + "\n";
  const std::string extra =
      options_.adapter + "\n" + (i == 0 ? options_.adapter_a : options_.adapter_p) + "\n";
  const std::string other = count == 1 && options_.apart ? options_.adapter_p : "";
  if (pods()) {
    const std::string own = pod(0) ? "3" : "2";
    const std::string both = "\"" + net_ + own + "\", \"" + net_ + "1" + own + "\", \"" + net6_ + own + "\"";
    daemon.adapters = {"name = \"soft0\"\naddresses = [" + (pod(0) && pod(1) ? "\"127.0.0.2\"" : both) +
                       "]\n" + port + extra};
  } else if (options_.wired) {
    daemon.network_namespace = hosts_[i]->fd();
    daemon.adapters = {"name = \"soft0\"\naddresses = [\"10.77.0." + n + "\"]\n" + port + extra};
  } else {
    const std::string six = InPrivateNetwork() ? ", \"fd00::" + n + "\"" : (i == 0 ? ", \"::1\"" : "");
    daemon.adapters = {"name = \"soft0\"\naddresses = [\"127.0.0." + n + "\", \"127.0.0.1" + n + "\"" + six +
                           "]\n" + port + extra,
                       "name = \"soft1\"\naddresses = [\"127.0.1." + n + "\"]\n" + port + other};
  }
  return daemon;
}

DaemonOptions World::Devices(DaemonOptions daemon, std::size_t i) const {
  std::string names;
  for (const SiteAdapter& adapter : TheSite().side[i]) {
    names += (names.empty() ? "\"" : ", \"") + adapter.name + "\"";
  }
  daemon.sections["verbs"] += "\ndevices = [" + names + "]\n" + options_.adapter + "\n" +
                              (i == 0 ? options_.adapter_a : options_.adapter_p) + "\n";
  // A broker always has a soft adapter; this one does not interfere.
  daemon.adapters = {"name = \"soft-aside\"\naddresses = [\"127.0.0.2\"]\nmode = \"tcp\"\n"};
  return daemon;
}

void World::Revive(int side) {
  if (clients_.size() <= static_cast<std::size_t>(side)) {
    ActorOptions options;
    options.broker = (side == 0 ? broker_a() : broker_p()).directory();
    options.adapter = AdapterName(side, OnOther(side));
    options.application = side == 0 ? "A" : "P";
    options.uid = side == 0 ? options_.uid_a : options_.uid_p;
    if (!hosts_.empty() && hosts_[static_cast<std::size_t>(side)]) {
      options.network_namespace = hosts_[static_cast<std::size_t>(side)]->fd();
    }
    clients_.push_back(std::make_unique<Actor>(options));
  }
  Actor& client = *clients_[static_cast<std::size_t>(side)];
  if (client.alive() && client.process().running() && client.Connected()) return;
  client.Kill();
  warm_ = false;
  const Status status = client.Open();
  if (!status.ok()) {
    error_ = "client " + client.options().application + " cannot open: " + status.ToString();
    ADD_FAILURE() << error_;
  }
}

std::vector<std::size_t> World::ClientDescriptors() {
  std::vector<std::size_t> list;
  for (const auto& client : clients_) list.push_back(CountDescriptors(client->process().pid()));
  return list;
}

// Libraries open some descriptors at first use and keep them; that must happen before descriptors are
// counted.
void World::WarmUp() {
  for (int side = 0; side < 2; ++side) Revive(side);
  if (warm_ || !error_.empty()) return;
  warm_ = true;
  ExpectTraffic(Up());
  for (const auto& client : clients_) client->Reset();
  const auto calm = [](const Counts& counts) {
    return counts.connections + counts.listeners + counts.endpoints + counts.queue_pairs + counts.ports +
               counts.handshakes ==
           0;
  };
  for (const auto& broker : brokers_) {
    EXPECT_TRUE(Eventually([&] { return calm(broker->Count()); })) << broker->Count().ToString();
  }
}

void World::Begin() {
  WarmUp();
  before_.clear();
  for (const auto& broker : brokers_) {
    before_.push_back(broker->Count());
    // Devices are opened one after the other and closed with a delay.
    const auto settled = [&] {
      const Counts now = broker->Count();
      return std::exchange(before_.back(), now) == now;
    };
    if (verbs()) Eventually(settled, milliseconds(5000));
  }
  descriptors_before_ = ClientDescriptors();
}

void World::Finish() {
  extra_.clear();
  if (wire_) wire_->Mend();
  for (const auto& client : clients_) {
    for (const std::string& fault : client->Reset()) {
      ADD_FAILURE() << client->options().application << ": " << fault;
    }
  }
  WarmUp();  // For the clients that the case killed.
  for (std::size_t i = 0; i < brokers_.size(); ++i) {
    if (!brokers_[i]->running()) {
      ADD_FAILURE() << "a broker ended during the case:\n" << brokers_[i]->log();
      continue;
    }
    Counts after;
    // Longer than a restarted broker keeps ports for their former holders (reclaim-grace, 10 s).
    const auto same = [&] {
      after = brokers_[i]->Count();
      // A descriptor that the broker was still closing at the first count is no leak.
      after.descriptors = std::max(after.descriptors, before_[i].descriptors);
      return after == before_[i];
    };
    if (!Eventually(same, milliseconds(15000))) {
      ADD_FAILURE() << "broker " << i
                    << " does not hold what it held before\nbefore: " << before_[i].ToString()
                    << "\nafter:  " << after.ToString();
    }
  }
  std::vector<std::size_t> descriptors;
  if (!Eventually([&] { return (descriptors = ClientDescriptors()) == descriptors_before_; },
                  milliseconds(3000))) {
    ADD_FAILURE() << "descriptors of A and P before: " << descriptors_before_[0] << ", "
                  << descriptors_before_[1] << "; after: " << descriptors[0] << ", " << descriptors[1];
  }
}

Actor& World::Extra(bool at_p, ActorOptions options) {
  if (options.broker.empty()) options.broker = (at_p ? broker_p() : broker_a()).directory();
  if (options.adapter.empty()) options.adapter = at_p ? adapter_p() : adapter_a();
  if (!hosts_.empty() && hosts_[at_p ? 1 : 0] && options.network_namespace < 0) {
    options.network_namespace = hosts_[at_p ? 1 : 0]->fd();
  }
  extra_.push_back(std::make_unique<Actor>(options));
  extra_.back()->Start();
  return *extra_.back();
}

// ---- Addresses -----------------------------------------------------------------------------------------
Address World::Ip(const std::string& text, std::uint16_t port) {
  return Address::Parse(text).value().WithPort(port);
}
const SiteAdapter& World::Device(int side) const {
  return TheSite().side[side][options_.wired ? 2 : 0];
}
std::string World::AdapterName(int side, bool other) const {
  if (verbs()) return other ? TheSite().side[side][1].name : Device(side).name;
  return other ? "soft1" : "soft0";
}
bool World::one_phase() {
  return verbs() && A().Info().technology == RdmaTechnology::kIwarp;
}
Address World::At(int side, std::uint16_t port) const {
  if (verbs()) return Device(side).addresses[0].WithPort(port);
  if (OnOther(side)) return p_other(port);
  const std::string net = options_.wired || pods() ? net_ : "127.0.0.";
  return Ip(net + (side == 0 || (local() && !options_.wired) ? "2" : "3"), port);
}
Address World::a_second(std::uint16_t port) const {
  if (pods()) return Ip(net_ + "12", port);
  return verbs() ? Device(0).addresses[1].WithPort(port) : Ip("127.0.0.12", port);
}
Address World::p_second(std::uint16_t port) const {
  if (pods()) return Ip(net_ + "13", port);
  return verbs() ? Device(1).addresses[1].WithPort(port) : Ip(local() ? "127.0.0.12" : "127.0.0.13", port);
}
Address World::a_other(std::uint16_t port) const {
  return verbs() ? TheSite().side[0][1].addresses[0].WithPort(port) : Ip("127.0.1.2", port);
}
Address World::p_other(std::uint16_t port) const {
  return verbs() ? TheSite().side[1][1].addresses[0].WithPort(port)
                 : Ip(local() ? "127.0.1.2" : "127.0.1.3", port);
}
bool World::has_ipv6() const {
  if (verbs()) return Device(0).addresses.size() > 2 && Device(1).addresses.size() > 2;
  return InPrivateNetwork() || local();
}
Address World::a6(std::uint16_t port) const {
  if (verbs()) return Device(0).addresses[2].WithPort(port);
  if (pods()) return Ip(net6_ + "2", port);
  return Ip(InPrivateNetwork() ? "fd00::2" : "::1", port);
}
Address World::p6(std::uint16_t port) const {
  if (verbs()) return Device(1).addresses[2].WithPort(port);
  if (pods()) return Ip(net6_ + "3", port);
  return Ip(InPrivateNetwork() ? (local() ? "fd00::2" : "fd00::3") : "::1", port);
}

void World::Silence(bool silent) {
  if (!verbs()) {
    silent ? P().process().Pause() : P().process().Resume();
  } else {
    broker_p().Pause(silent);
  }
}

std::string World::FieldOf(Daemon& broker, const std::string& wanted, const Address& local,
                           const Address& peer) {
  const Flat list = broker.Admin("ListConnections");
  for (std::size_t i = 0; i < list.Count("items"); ++i) {
    const std::string row = "items." + std::to_string(i) + ".";
    const auto address = [&](const std::string& field) {
      const auto family =
          list[row + field + ".family"] == "6" ? Address::Family::kIpv6 : Address::Family::kIpv4;
      return Address::FromParts(family, list[row + field + ".ip"],
                                static_cast<std::uint16_t>(list.Number(row + field + ".port")));
    };
    if (address("local") != local) continue;
    if (peer.well_formed() && address("peer") != peer) continue;
    return list[row + wanted];
  }
  return {};
}

std::uint64_t World::Counter(Daemon& broker, const std::string& name) {
  return broker.Admin("GetStatus").Number("counters." + name);
}

}  // namespace nd::conformance
