// SPDX-License-Identifier: Apache-2.0
// The answer to a Connect whose listener has a full backlog, beside the answer of a port without a listener,
// which is a round trip.
#include <nd/nd.h>

#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

Address At(int host, std::uint16_t port) {
  return Must(Address::Parse("127.0.0." + std::to_string(host))).WithPort(port);
}
Adapter OpenAt(const testing::Daemon& broker, const char* name) {
  OpenOptions options;
  options.broker = broker.directory();
  options.application = name;
  return Must(Adapter::Open(options));
}

struct End {
  explicit End(Adapter& adapter) : queue(Must(adapter.CreateCompletionQueue(8))) {
    pair = Must(adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue}));
    connector = Must(adapter.CreateConnector());
  }
  CompletionQueue queue;
  QueuePair pair;
  Connector connector;
};

}  // namespace

int MeasureBacklog(const Scale& scale) {
  constexpr std::size_t kBacklog = 8;
  testing::Daemon near(BrokerAt(2)), far(BrokerAt(3));
  if (!near.Start() || !far.Start()) Die("the brokers do not start");
  Adapter client = OpenAt(near, "client"), server = OpenAt(far, "server");
  Listener listener = Must(server.CreateListener());
  Must(listener.Bind(At(3, 7000)));
  Must(listener.Listen(kBacklog));
  std::vector<std::unique_ptr<End>> waiting;
  std::vector<Request> requests(kBacklog);
  for (Request& request : requests) {
    waiting.push_back(std::make_unique<End>(client));
    Must(waiting.back()->connector.Bind(At(2, 0)));
    const Status status = waiting.back()->connector.Connect(waiting.back()->pair, At(3, 7000), {}, &request);
    if (!status.ok() && !status.pending()) Must(status);
  }
  // The requests are in the backlog.
  const bool full = testing::Eventually(
      [&] { return far.Admin("ListListeners").Number("items.0.backlog_used") == kBacklog; });
  if (!full) Die("the backlog does not fill: " + far.Ndctl("listener list -o json"));
  const std::size_t count = std::max<std::size_t>(200, scale.connections / 10);
  std::vector<double> refused, absent;
  std::size_t others = 0;
  std::string other;
  for (std::size_t i = 0; i < count; ++i) {
    for (const bool busy : {true, false}) {
      End end(client);
      Must(end.connector.Bind(At(2, 0)));
      const auto began = Clock::now();
      const Status status = end.connector.Connect(end.pair, At(3, busy ? 7000 : 7001));
      (busy ? refused : absent).push_back(Milliseconds(Clock::now() - began));
      if (status != StatusCode::kConnectionRefused) {
        ++others;
        other = status.ToString();
      }
    }
  }
  const double most = Percentile(refused, 0.99), trip = Percentile(absent, 0.5);
  Row(12, others == 0 && most <= trip + 2,
      Format("%zu Connects: %zu without the refusal%s%s; refused after p50 %.2f ms, p99 %.2f ms; a port "
             "without a listener "
             "p50 %.2f ms, p99 %.2f ms",
             count, others, other.empty() ? "" : " ", other.c_str(), Percentile(refused, 0.5), most, trip,
             Percentile(absent, 0.99)));
  for (const auto& end : waiting) static_cast<void>(end->connector.Close());
  return 0;
}

}  // namespace nd::reliability
