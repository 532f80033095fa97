// SPDX-License-Identifier: Apache-2.0
// The ends are ordinary applications of the client library. They share only the report to their parent.
#include "tests/bench/ends.h"

#include <cstdio>
#include <string>

#include "nd/nd.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/result.h"

namespace nd::perf {

void Progress::Report(std::uint64_t done) {
  watch_ = Stopwatch();
  const std::string line =
      "progress " + std::to_string(done) + " of " + std::to_string(options_.iterations) + "\n";
  // A parent that does not read loses the line.
  static_cast<void>(WriteReport(options_.report_fd, line));
}

namespace {

int Fail(const char* end, const std::string& what, const Status& status) {
  std::fprintf(stderr, "ndperf %s: %s: %s\n", end, what.c_str(), status.ToString().c_str());
  return 1;
}

Status Report(const Options& options, const std::string& line) {
  if (WriteReport(options.report_fd, line + "\n")) return Status::Ok();
  return {StatusCode::kUnsuccessful, "the parent is gone"};
}

Result<Adapter> OpenAdapter(const Options& options, const Address& local) {
  OpenOptions open;
  open.broker = options.broker;
  open.adapter = options.adapter;
  open.local = local;
  open.application = options.role == Role::kServer ? "ndperf-server" : "ndperf-client";
  open.reconnect = false;
  return Adapter::Open(open);
}

// The passive end needs a receive for every message that may be in flight.
std::uint32_t Receives(const Options& options, Role role) {
  return role == Role::kServer && options.op == Op::kSend ? 2 * options.window : 4;
}

Status ServeOne(Adapter& adapter, Listener& listener, const Options& options) {
  if (options.op == Op::kResolve) return Status::Ok();  // Only the broker is needed.
  if (options.op == Op::kConnect) {
    return options.metric == Metric::kLatency ? ConnectLatencyPassive(adapter, listener, options)
                                              : ConnectRatePassive(adapter, listener, options);
  }
  Link link;
  Status status = link.Prepare(adapter, options, options.window, Receives(options, Role::kServer));
  if (status.ok()) status = link.NewQueuePair();
  if (status.ok()) status = listener.GetConnectionRequest(link.connector());
  if (status.ok()) status = link.Accept();
  if (!status.ok()) return status;
  if (options.op == Op::kSend) status = SendPassive(link, options);
  if (options.op == Op::kWrite) status = WritePassive(link, options);
  if (options.op == Op::kRead) status = ReadPassive(link, options);
  if (!status.ok()) return status;
  return link.AwaitGoodbye();
}

Status MeasureOne(Adapter& adapter, const Address& remote, const Options& options, Sample* sample) {
  if (options.op == Op::kConnect) {
    return options.metric == Metric::kLatency ? ConnectLatencyActive(adapter, remote, options, sample)
                                              : ConnectRateActive(adapter, remote, options, sample);
  }
  if (options.op == Op::kResolve) return ResolveActive(adapter, remote, options, sample);
  const auto local = adapter.ResolveAddress(remote);
  if (!local.ok()) return local.status();
  Link link;
  Status status = link.Prepare(adapter, options, options.window, Receives(options, Role::kClient));
  if (status.ok()) status = link.NewQueuePair();
  if (status.ok()) status = link.Connect(*local, remote);
  if (!status.ok()) return status;
  if (options.op == Op::kSend) status = SendActive(link, options, sample);
  if (options.op == Op::kWrite) status = WriteActive(link, options, sample);
  if (options.op == Op::kRead) status = ReadActive(link, options, sample);
  if (!status.ok()) return status;
  return link.Disconnect();
}

}  // namespace

int RunServer(const Options& options) {
  Address local;
  if (!options.address.empty()) {
    const auto parsed = Address::Parse(options.address);
    if (!parsed.ok()) return Fail("server", options.address, parsed.status());
    local = *parsed;
  }
  auto adapter = OpenAdapter(options, local);
  if (!adapter.ok()) return Fail("server", "cannot use the broker", adapter.status());
  if (options.address.empty()) {
    if (adapter->info().addresses.empty()) return Fail("server", "the adapter has no address", Status());
    local = adapter->info().addresses.front();
  }
  auto listener = adapter->CreateListener();
  if (!listener.ok()) return Fail("server", "no listener", listener.status());
  Status status = listener->Bind(local);
  if (status.ok()) status = listener->Listen();
  if (!status.ok()) return Fail("server", "cannot listen on " + local.ToString(), status);
  const auto bound = listener->GetLocalAddress();
  if (!bound.ok()) return Fail("server", "no address", bound.status());
  status = Report(options, "ready " + bound->ToString());
  if (status.ok()) status = ServeOne(*adapter, *listener, options);
  return status.ok() ? 0 : Fail("server", "failed", status);
}

int RunClient(const Options& options) {
  const auto remote = Address::Parse(options.address);
  if (!remote.ok()) return Fail("client", options.address, remote.status());
  auto adapter = OpenAdapter(options, Address());
  if (!adapter.ok()) return Fail("client", "cannot use the broker", adapter.status());
  Sample sample;
  Status status = MeasureOne(*adapter, *remote, options, &sample);
  if (status.ok()) status = Report(options, Encode(Summarize(options, sample)));
  return status.ok() ? 0 : Fail("client", "failed", status);
}

}  // namespace nd::perf
