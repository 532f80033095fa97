// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/hostile/honest.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include "tests/crash/hostile/attack.h"

namespace nd::hostile {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::size_t kMessage = 64;
// The most connections of attackers that the victim keeps. A further one replaces the oldest.
constexpr std::size_t kVictims = 32;

Address At(int host, std::uint16_t port) {
  return Address::Parse("127.0.0." + std::to_string(host)).value().WithPort(port);
}
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "the honest tenant cannot begin: %s\n", result.status().ToString().c_str());
    std::exit(2);
  }
  return std::move(result).value();
}
void Must(const Status& status) {
  if (!status.ok()) Must(Result<int>(status));
}
double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
Adapter OpenAt(const std::string& directory, const char* name) {
  OpenOptions options;
  options.broker = directory;
  options.application = name;
  return Must(Adapter::Open(options));
}

}  // namespace

double Percentile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(part * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

// The objects of one side of one connection.
struct Honest::Ends {
  Status Make(Adapter& adapter, std::uint32_t depth = 8) {
    Result<CompletionQueue> made = adapter.CreateCompletionQueue(4 * depth);
    if (!made.ok()) return made.status();
    queue = std::move(made).value();
    Result<QueuePair> pairs =
        adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue, .receive_depth = depth});
    if (!pairs.ok()) return pairs.status();
    pair = std::move(pairs).value();
    Result<Connector> connectors = adapter.CreateConnector();
    if (!connectors.ok()) return connectors.status();
    connector = std::move(connectors).value();
    return Status::Ok();
  }
  void Close() {
    static_cast<void>(connector.Close());
    static_cast<void>(pair.Close());
    static_cast<void>(queue.Close());
  }
  CompletionQueue queue;
  QueuePair pair;
  Connector connector;
};

Honest::Honest(const Side& active, const Side& passive, bool victim)
    : active_side_(active),
      passive_side_(passive),
      active_(OpenAt(active.directory, "honest")),
      passive_(OpenAt(passive.directory, "honest-server")) {
  buffer_ = Must(active_.AllocateBuffer(65536));
  region_ = Must(active_.Register(buffer_, kAllowLocalWrite));
  received_ = Must(passive_.Register(buffer_.data(), 4096, kAllowLocalWrite));
  listener_ = Must(passive_.CreateListener());
  Must(listener_.Bind(At(passive.host, kHonestPort)));
  Must(listener_.Listen());
  if (!victim) return;
  // Peers may write to this half of the buffer only.
  exposed_ = Must(passive_.Register(buffer_.data() + 32768, 32768, kAllowLocalWrite | kAllowRemoteWrite));
  victim_ = Must(passive_.CreateListener());
  Must(victim_.Bind(At(passive.host, kVictimPort)));
  Must(victim_.Listen());
  accepts_ = std::thread([this] { Accept(); });
}

Honest::~Honest() {
  if (accepts_.joinable()) {
    stop_ = true;
    while (!ended_) {
      static_cast<void>(victim_.Cancel());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    accepts_.join();
    static_cast<void>(victim_.Close());
  }
  static_cast<void>(listener_.Close());
}

void Honest::DropVictims() {
  drop_ = true;
  // Repeated, because the thread may be between two requests.
  while (drop_) {
    static_cast<void>(victim_.Cancel());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Serves the attackers: posts receives, answers messages, and ignores every failure, as a server does.
void Honest::Accept() {
  std::deque<std::unique_ptr<Ends>> open;
  MemoryRegion& region = exposed_;
  while (!stop_) {
    auto end = std::make_unique<Ends>();
    if (!end->Make(passive_).ok()) {
      end->Close();
      std::this_thread::yield();
      continue;
    }
    for (int i = 0; i < 4; ++i)
      static_cast<void>(end->pair.Receive(nullptr, std::array{region.Slice(buffer_.data() + 40960, 4096)}));
    Request wanted;
    Status status = victim_.GetConnectionRequest(end->connector, &wanted);
    if (status.ok() || status.pending()) status = wanted.GetResult();
    Request accepting;
    if (status.ok()) {
      // The token and the address of the exposed memory, which a peer needs for a Write.
      const std::uint32_t token = region.remote_token();
      const auto address = reinterpret_cast<std::uintptr_t>(buffer_.data() + 32768);
      std::array<std::byte, 12> told;
      std::memcpy(told.data(), &token, 4);
      std::memcpy(told.data() + 4, &address, 8);
      ConnectOptions options;
      options.private_data = told;
      // An attacker may never confirm, so that nothing waits for this request.
      static_cast<void>(end->connector.Accept(end->pair, options, &accepting));
      open.push_back(std::move(end));
    } else {
      end->Close();
    }
    std::array<Completion, 16> done;
    for (const auto& one : open) {
      const std::size_t count = one->queue.Poll(done);
      for (std::size_t i = 0; i < count; ++i) {
        if (done[i].status != StatusCode::kSuccess) continue;
        static_cast<void>(one->pair.Receive(nullptr, std::array{region.Slice(buffer_.data() + 40960, 4096)}));
      }
    }
    if (drop_) {
      for (const auto& one : open) one->Close();
      open.clear();
      drop_ = false;
    }
    while (open.size() > kVictims) {
      open.front()->Close();
      open.pop_front();
    }
  }
  for (const auto& one : open) one->Close();
  ended_ = true;
}

Status Honest::Once(Measured* out) {
  const auto begin = Clock::now();
  if (const Status status = active_.CheckAddress(At(active_side_.host, 0)); !status.ok()) return status;
  out->operation.push_back(MicrosecondsSince(begin));

  Ends server, client;
  const auto close = [&](Status status) {
    client.Close();
    server.Close();
    return status;
  };
  if (Status status = server.Make(passive_); !status.ok()) return close(std::move(status));
  if (Status status = client.Make(active_); !status.ok()) return close(std::move(status));
  const Sge to = received_.Slice(buffer_.data(), kMessage),
            from = region_.Slice(buffer_.data() + 4096, kMessage);
  if (Status status = server.pair.Receive(nullptr, std::array{to}); !status.ok())
    return close(std::move(status));
  Request wanted, connecting, accepting;
  static_cast<void>(listener_.GetConnectionRequest(server.connector, &wanted));
  const auto connect = Clock::now();
  Status status = client.connector.Bind(At(active_side_.host, 0));
  if (status.ok()) {
    static_cast<void>(
        client.connector.Connect(client.pair, At(passive_side_.host, kHonestPort), {}, &connecting));
    // The request fails before the listener sees it, or the listener sees it.
    while (wanted.GetResult(false).pending() && connecting.GetResult(false).pending())
      std::this_thread::yield();
    if (wanted.GetResult(false).pending()) {
      status = connecting.GetResult();
      static_cast<void>(listener_.Cancel());
      static_cast<void>(wanted.GetResult());
      return close(status.ok() ? Status(StatusCode::kUnsuccessful, "connected without a request") : status);
    }
    status = wanted.GetResult();
  }
  if (status.ok()) static_cast<void>(server.connector.Accept(server.pair, {}, &accepting));
  if (status.ok()) status = connecting.GetResult();
  if (status.ok()) status = client.connector.CompleteConnect();
  if (status.ok()) status = accepting.GetResult();
  if (!status.ok()) return close(std::move(status));
  out->connect.push_back(MicrosecondsSince(connect));

  const auto message = Clock::now();
  status = client.pair.Send(nullptr, std::array{from}, kOpSilentSuccess);
  if (!status.ok()) return close(std::move(status));
  const Result<Completion> got = server.queue.Next(seconds(30));
  if (!got.ok()) return close(got.status());
  if (got->status != StatusCode::kSuccess) return close(Status(got->status, "the message did not arrive"));
  out->message.push_back(MicrosecondsSince(message));
  return close(Status::Ok());
}

Measured Honest::Measure(int count) {
  Measured out;
  for (int i = 0; i < count; ++i) {
    const Status status = Once(&out);
    if (status.ok()) continue;
    if (out.failures++ == 0) out.first_failure = status.ToString();
  }
  for (std::vector<double>* values : {&out.operation, &out.connect, &out.message})
    std::sort(values->begin(), values->end());
  return out;
}

}  // namespace nd::hostile
