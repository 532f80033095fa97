// SPDX-License-Identifier: Apache-2.0
// rping's protocol, both roles: the peer is the ordinary program, which creates its queue pair with rdma_cm
// and knows no brokers.
//
// The client advertises a source buffer, the server Reads it and sends a message; the client advertises a
// sink, the server Writes the data back and sends a message. This repeats for every round.
#include <endian.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/vm/proof.h"

namespace nd::vm {
namespace {

constexpr int kRounds = 5;
constexpr std::uint32_t kSize = 64;

struct Advertisement {  // Network order.
  std::uint64_t address;
  std::uint32_t key, size;
};
static_assert(sizeof(Advertisement) == 16);

pid_t StartRping(const std::vector<std::string>& arguments) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  std::vector<char*> argv;
  std::string name = "rping";
  argv.push_back(name.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr)) ::_exit(126);
  ::execvp("rping", argv.data());
  ::_exit(127);
}

// rping's exit code, or -1 when it had to be ended.
int EndRping(pid_t pid) {
  for (int i = 0; i < 100; ++i) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return -1;
}

// The completions of one side, by type: the answer to a Send may complete before the Send.
class Completions {
 public:
  explicit Completions(const Side& side) : side_(side) {}
  // Waits for the next request of this type; false when a request failed or none of this type completed.
  bool Done(RequestType type) {
    for (;;) {
      const auto found = std::ranges::find(early_, type, &Completion::type);
      if (found != early_.end()) {
        early_.erase(found);
        return true;
      }
      const auto completion = side_.Next();
      if (!completion || completion->status != StatusCode::kSuccess) return false;
      early_.push_back(*completion);
    }
  }

 private:
  const Side& side_;
  std::vector<Completion> early_;
};

bool PostReceive(const Side& side) {
  const Sge sge = side.sge(0, sizeof(Advertisement));
  return side.qp->Receive(nullptr, {&sge, 1}).ok();
}

bool SendFrom(const Side& side, std::size_t offset) {
  const Sge sge = side.sge(offset, sizeof(Advertisement));
  return side.qp->Send(nullptr, {&sge, 1}, 0).ok();
}

void Advertise(const Side& side, std::size_t offset, std::size_t message) {
  const Advertisement a{htobe64(side.address(offset)), htobe32(side.region->remote_token()), htobe32(kSize)};
  std::memcpy(side.at(message), &a, sizeof a);
}

}  // namespace

// Our listener, rping -c.
void RpingClientScenario(World& world, const AdapterInfo& adapter, Case& c) {
  const Side side = world.MakeSide(adapter);
  const Address server = adapter.addresses.at(0).WithPort(world.next_port());
  const EndpointId endpoint = world.next_endpoint();
  ND_CHECK(c, world.Reserve(endpoint, adapter.name, server).ok());
  world.Listen(endpoint, adapter.name, server);
  ND_CHECK(c, PostReceive(side));
  const pid_t rping = StartRping({"-c", "-a", server.IpToString(), "-p", std::to_string(server.port()), "-C",
                                  std::to_string(kRounds), "-S", std::to_string(kSize), "-V"});
  const auto request = world.NextRequest();
  ND_CHECK(c, request.has_value());
  if (request) {
    world.Accept(request->id, side, {1, 1}, {});
    ND_CHECK(c, world.Wait(request->id, [](const Told& t) { return t.established || t.finished; }));
    ND_CHECK(c, world.Attach(request->id, side, 1).ok());
    Completions done(side);
    std::string failed;  // The first step that did not succeed.
    const auto step = [&](bool ok, int round, const char* name) {
      if (!ok && failed.empty()) failed = "round " + std::to_string(round) + ", " + name;
      return failed.empty();
    };
    for (int i = 0; i < kRounds && failed.empty(); ++i) {
      for (const bool source : {true, false}) {
        if (!step(done.Done(RequestType::kReceive), i, "advertisement")) break;
        Advertisement from{};
        std::memcpy(&from, side.at(0), sizeof from);
        if (!step(be32toh(from.size) == kSize && PostReceive(side), i, "size of the advertisement")) break;
        const Sge data = side.sge(1024, kSize);
        const std::uint64_t address = be64toh(from.address);
        const std::uint32_t key = be32toh(from.key);
        if (source) {
          step(side.qp->Read(nullptr, {&data, 1}, address, key, 0).ok() && done.Done(RequestType::kRead), i,
               "Read");
        } else {
          step(side.qp->Write(nullptr, {&data, 1}, address, key, 0).ok() && done.Done(RequestType::kWrite), i,
               "Write");
        }
        if (!step(failed.empty() && SendFrom(side, 512) && done.Done(RequestType::kSend), i, "Send")) break;
      }
    }
    c.Check(failed.empty(), failed.c_str(), __LINE__);
    ND_CHECK(c, world.Wait(request->id, [](const Told& t) { return t.peer_closed; }));
  }
  ND_CHECK(c, EndRping(rping) == 0);
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    if (request) cm.Abort(request->id);
    cm.Release(endpoint);
  });
}

// rping -s, our connect.
void RpingServerScenario(World& world, const AdapterInfo& adapter, Case& c) {
  const Address server = adapter.addresses.at(0).WithPort(world.next_port());
  const Address client = adapter.addresses.at(0).WithPort(world.next_port());
  const EndpointId endpoint = world.next_endpoint();
  ND_CHECK(c, world.Reserve(endpoint, adapter.name, client).ok());
  const pid_t rping = StartRping({"-s", "-a", server.IpToString(), "-p", std::to_string(server.port()), "-C",
                                  std::to_string(kRounds), "-S", std::to_string(kSize), "-V"});
  // Connect is refused until rping listens.
  Side side;
  CmId id{};
  for (int attempt = 0; attempt < 50; ++attempt) {
    side = world.MakeSide(adapter);
    ND_CHECK(c, PostReceive(side));
    id = world.Connect(adapter, endpoint, client, server, side, {1, 1}, {});
    ND_CHECK(c, world.Wait(id, [](const Told& t) { return t.replied || t.finished; }));
    if (world.Of(id).replied) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ND_CHECK(c, world.Of(id).replied);
  if (world.Of(id).replied) {
    world.Confirm(id);
    ND_CHECK(c, world.Wait(id, [](const Told& t) { return t.established || t.finished; }));
    ND_CHECK(c, world.Attach(id, side, 1).ok());
    Completions done(side);
    bool good = true;
    for (int i = 0; i < kRounds && good; ++i) {
      // rping prints and compares text: NUL-terminated inside its size.
      std::memset(side.at(1024), 'a' + i, kSize);
      side.at(1024)[kSize - 1] = std::byte{0};
      std::memset(side.at(2048), 0, kSize);
      Advertise(side, 1024, 512);
      good = SendFrom(side, 512) && done.Done(RequestType::kSend) && done.Done(RequestType::kReceive) &&
             PostReceive(side);
      Advertise(side, 2048, 512);
      good = good && SendFrom(side, 512) && done.Done(RequestType::kSend) &&
             done.Done(RequestType::kReceive) && PostReceive(side);
      good = good && std::memcmp(side.at(1024), side.at(2048), kSize) == 0;
    }
    ND_CHECK(c, good);
    world.OnLoop([&](provider::verbs::VerbsCm& cm) { cm.Disconnect(id); });
    ND_CHECK(c, world.Wait(id, [](const Told& t) { return t.disconnected; }));
  }
  ND_CHECK(c, EndRping(rping) >= 0);
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    cm.Abort(id);
    cm.Release(endpoint);
  });
}

}  // namespace nd::vm
