// SPDX-License-Identifier: Apache-2.0
// Connection storms: a server that accepts until told to stop, and several kinds of clients.
#include <atomic>
#include <deque>
#include <thread>

#include "tests/testing/process.h"
#include "tests/testing/programs_common.h"

namespace nd::testing {
namespace {

struct Tally {
  std::atomic<int> accepted{0}, aborted{0}, disconnected{0}, retried{0};
  std::mutex mutex;
  std::string failure;
  void Fail(const std::string& what) {
    const std::lock_guard lock(mutex);
    if (failure.empty()) failure = what;
  }
  std::string Report() {
    const std::lock_guard lock(mutex);
    if (!failure.empty()) return failure;
    return "ok accepted=" + std::to_string(accepted) + " aborted=" + std::to_string(aborted) +
           " disconnected=" + std::to_string(disconnected) + " retried=" + std::to_string(retried);
  }
};

// One accepted connection: receives a message, then ends as `mode` says.
void ServeOne(Adapter& adapter, Connector connector, const std::string& mode, Tally* tally) {
  End end(adapter, 4096, 8);
  const Sge sge = end.Piece(0, 4096);
  (void)end.qp.Receive(nullptr, std::span(&sge, 1));
  const Status accept = connector.Accept(end.qp);
  if (accept == StatusCode::kConnectionAborted) {
    ++tally->aborted;
    return;
  }
  if (!accept.ok()) return tally->Fail("Accept: " + accept.ToString());
  ++tally->accepted;
  if (mode == "message") {
    const Completion got = NextOf(end, RequestType::kReceive);
    if (got.status != StatusCode::kSuccess && got.status != StatusCode::kCanceled) {
      return tally->Fail("Receive: " + std::string(Name(got.status)));
    }
  }
  if (mode == "wait" || mode == "message") {
    const Status notified = connector.NotifyDisconnect();
    if (!notified.ok() && !(notified == StatusCode::kCanceled) &&
        !(notified == StatusCode::kConnectionDisconnected)) {
      return tally->Fail("NotifyDisconnect: " + notified.ToString());
    }
  }
  if (mode != "close") {
    const Status gone = connector.Disconnect();
    // When the peer closes its connector, there is no disconnect to answer.
    if (gone.ok()) ++tally->disconnected;
    if (!gone.ok() && mode != "any") tally->Fail("Disconnect: " + gone.ToString());
  }
  (void)connector.Close();
}

}  // namespace

std::string AcceptLoop(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  Listener listener = adapter.CreateListener().value();
  if (Status s = listener.Bind(arguments.At()); !s.ok()) return "Bind: " + s.ToString();
  if (Status s = listener.Listen(static_cast<std::uint32_t>(arguments.Number("backlog"))); !s.ok()) {
    return "Listen: " + s.ToString();
  }
  const std::string mode = arguments.Text("mode");
  Tally tally;
  std::atomic<bool> stop{false};
  const auto serve = [&] {
    while (!stop) {
      Connector connector = adapter.CreateConnector().value();
      const Status got = listener.GetConnectionRequest(connector);
      if (got == StatusCode::kCanceled && stop) return;
      if (!got.ok()) return tally.Fail("GetConnectionRequest: " + got.ToString());
      const Result<std::vector<std::byte>> data = connector.GetPrivateData();
      if (data.ok() && data->size() == 4 && std::to_integer<char>((*data)[0]) == 's') {  // "stop"
        (void)connector.Reject();
        stop = true;
        if (Status s = listener.Cancel(); !s.ok()) tally.Fail("Cancel: " + s.ToString());
        return;
      }
      ServeOne(adapter, connector, mode, &tally);
    }
  };
  std::vector<std::thread> threads;
  std::atomic<int> running{arguments.Number("threads", 4)};
  for (int i = running; i > 0; --i) {
    threads.emplace_back([&] {
      serve();
      --running;
    });
  }
  // A thread may call GetConnectionRequest just after the cancel, so the cancel is repeated.
  Eventually(
      [&] {
        if (stop) (void)listener.Cancel();
        return running == 0;
      },
      std::chrono::hours(1));
  for (std::thread& thread : threads) thread.join();
  return tally.Report();
}

std::string ConnectLoop(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  const std::string mode = arguments.Text("mode");
  const int rounds = arguments.Number("rounds", 1 << 30);
  const auto end_time =
      std::chrono::steady_clock::now() + std::chrono::seconds(arguments.Number("seconds", 3600));
  Tally tally;
  std::atomic<int> next{0};
  const auto one = [&]() -> bool {
    End end(adapter, 4096, 8);
    Connector connector = adapter.CreateConnector().value();
    for (;;) {
      const Status status = connector.NdkConnect(end.qp, arguments.At("from"), arguments.At());
      if (status.ok()) break;
      if ((status == StatusCode::kConnectionRefused || status == StatusCode::kIoTimeout) &&
          mode == "message" && std::chrono::steady_clock::now() < end_time) {
        ++tally.retried;
        continue;
      }
      tally.Fail("Connect: " + status.ToString());
      return false;
    }
    Status status = connector.CompleteConnect();
    if (status == StatusCode::kConnectionAborted && mode == "cross") return ++tally.aborted, true;
    if (!status.ok()) return tally.Fail("CompleteConnect: " + status.ToString()), false;
    ++tally.accepted;
    if (mode == "message") {
      const Sge sge = end.Piece(0, 512);
      status = end.qp.Send(nullptr, std::span(&sge, 1));
      if (!status.ok()) return tally.Fail("Send: " + status.ToString()), false;
      const Completion sent = NextOf(end, RequestType::kSend);
      if (sent.status != StatusCode::kSuccess)
        return tally.Fail("Send: " + std::string(Name(sent.status))), false;
    }
    status = connector.Disconnect();
    if (!status.ok()) return tally.Fail("Disconnect: " + status.ToString()), false;
    ++tally.disconnected;
    (void)connector.Close();
    return true;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < arguments.Number("threads", 1); ++i) {
    threads.emplace_back([&] {
      while (next++ < rounds && std::chrono::steady_clock::now() < end_time) {
        if (!one()) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  End end(adapter, 4096, 8);
  ConnectOptions stop;
  stop.private_data = AsPrivateData("stop");
  (void)adapter.CreateConnector().value().NdkConnect(end.qp, arguments.At("from"), arguments.At(), stop);
  return tally.Report();
}

// `clients` sessions, each with `each` connections to the server at once; all stay up until all are up.
std::string ManyClients(const Arguments& arguments) {
  const int clients = arguments.Number("clients"), each = arguments.Number("each");
  struct Pending {
    std::unique_ptr<End> end;
    Connector connector;
    std::unique_ptr<Request> request;
  };
  std::vector<Adapter> adapters;
  std::deque<Pending> all;
  for (int i = 0; i < clients; ++i) {
    OpenOptions open;
    open.broker = arguments.Text("broker");
    open.adapter = arguments.Text("adapter");
    Result<Adapter> adapter = Adapter::Open(open);
    if (!adapter.ok()) return "client " + std::to_string(i) + ": " + adapter.status().ToString();
    adapters.push_back(std::move(*adapter));
  }
  for (Adapter& adapter : adapters) {
    for (int i = 0; i < each; ++i) {
      Pending pending{std::make_unique<End>(adapter, 4096, 4), adapter.CreateConnector().value(),
                      std::make_unique<Request>()};
      const Status begun = pending.connector.NdkConnect(pending.end->qp, arguments.At("from"), arguments.At(),
                                                        {}, pending.request.get());
      if (!begun.pending()) return "Connect: " + begun.ToString();
      all.push_back(std::move(pending));
    }
  }
  for (Pending& pending : all) {
    if (Status s = Await(Status(StatusCode::kPending), *pending.request); !s.ok())
      return "Connect: " + s.ToString();
    if (Status s = pending.connector.CompleteConnect(); !s.ok()) return "CompleteConnect: " + s.ToString();
  }
  for (Pending& pending : all) {
    if (Status s = pending.connector.Disconnect(); !s.ok()) return "Disconnect: " + s.ToString();
  }
  ConnectOptions stop;
  stop.private_data = AsPrivateData("stop");
  End end(adapters[0], 4096, 4);
  (void)adapters[0].CreateConnector().value().NdkConnect(end.qp, arguments.At("from"), arguments.At(), stop);
  return "ok up=" + std::to_string(all.size());
}

}  // namespace nd::testing
