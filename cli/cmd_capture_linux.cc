// SPDX-License-Identifier: Apache-2.0
// ndctl capture: the broker knows the packets of a connection; the user of ndctl needs the right to capture.
#include <csignal>
#include <memory>

#include "cli/capture.h"
#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/quantity.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

struct CaptureLine {
  std::string connection, adapter, peer, seconds, bytes;
  CaptureOptions capture;
};

volatile std::sig_atomic_t interrupted = 0;

Failure FilterOfConnection(Context& context, const std::string& id, std::string* filter) {
  v1::ListRequest request;
  request.set_id(id);
  v1::ConnectionList list;
  if (Failure failure = context.admin().ListConnections(request, &list)) return failure;
  if (list.items_size() != 1) {
    return Error{Exit::kNotFound,
                 "there is no connection '" + id + "'",
                 "ndctl connection list shows what there is",
                 {}};
  }
  const v1::ConnectionRow& row = list.items(0);
  if (row.transport() == "local") {
    return Error{Exit::kNotFound,
                 "connection " + id + " is shared memory of this host: it has no wire",
                 "ndctl connection show " + id + " shows what it moves",
                 {}};
  }
  if (!row.has_wire_local() || !row.has_wire_peer()) {
    return Error{
        Exit::kNotFound,
        "connection " + id + " has no TCP connection (state " + row.state() + ")",
        "ndctl capture --adapter " + row.adapter() + " takes every connection, from its handshake on",
        {}};
  }
  *filter = FilterOf(IpText(row.wire_local()), row.wire_local().port(), IpText(row.wire_peer()),
                     row.wire_peer().port());
  return std::nullopt;
}

// Without a name: every adapter with a TCP port of its own.
Failure FilterOfAdapters(Context& context, const CaptureLine& options, std::string* filter) {
  v1::AdapterList list;
  if (Failure failure = context.admin().ListAdapters(v1::ListRequest(), &list)) return failure;
  bool named = false;
  for (const v1::AdapterRow& row : list.items()) {
    if (!options.adapter.empty() && row.info().name() != options.adapter) continue;
    named = true;
    if (row.tcp_port() == 0) continue;
    *filter +=
        (filter->empty() ? "" : " or ") + std::string("(") + FilterOf(row.tcp_port(), options.peer) + ")";
  }
  if (!options.adapter.empty() && !named) {
    return Error{Exit::kNotFound,
                 "there is no adapter '" + options.adapter + "'",
                 "ndctl adapter list shows what there is",
                 {}};
  }
  if (!filter->empty()) return std::nullopt;
  return Error{Exit::kNotFound,
               "no such adapter has a TCP port of its own",
               "name a connection, or give the ports of mode tcp with --filter 'tcp port N'",
               {}};
}

Failure Run(Context& context, const CaptureLine& given) {
  CaptureOptions options = given.capture;
  if (!given.seconds.empty()) {
    if (Failure failure = ParseQuantity(given.seconds, Unit::kSeconds, &options.seconds)) return failure;
  }
  if (!given.bytes.empty()) {
    double bytes = 0;
    if (Failure failure = ParseQuantity(given.bytes, Unit::kBytes, &bytes)) return failure;
    options.bytes = static_cast<std::uint64_t>(bytes);
  }
  if (options.filter.empty()) {
    Failure failure = given.connection.empty()
                          ? FilterOfAdapters(context, given, &options.filter)
                          : FilterOfConnection(context, given.connection, &options.filter);
    if (failure) return failure;
  }
  if (!given.connection.empty()) {
    context.Complain(
        Error{Exit::kOk,
              "the handshake of this connection is over, so Wireshark shows its bytes as plain TCP",
              "ndctl capture without a connection, begun before it connects, is shown as iWARP",
              {}});
  }
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { interrupted = 1; });
  CaptureTotals totals;
  const auto say = [](const CaptureTotals& now) {
    return std::to_string(now.packets) + " packets, " + HumanBytes(static_cast<double>(now.bytes));
  };
  Failure failure = Capture(
      options, [] { return interrupted != 0; }, [&](const CaptureTotals& now) { context.Progress(say(now)); },
      &totals);
  context.Progress("");
  if (failure) return failure;
  if (options.file == "-") return std::nullopt;
  return context.Write(say(totals) + " in " + options.file +
                       (totals.dropped == 0 ? "" : "; " + std::to_string(totals.dropped) + " were lost") +
                       "\n");
}

}  // namespace

void AddCapture(Command root, Context& context) {
  Command app = root.Add("capture", "Packets of connections into a file for Wireshark");
  const auto options = std::make_shared<CaptureLine>();
  app.Add("ID", &options->connection, "id of a connection; without: everything on the adapters' TCP ports");
  app.Add("-w,--write", &options->capture.file, "File to write; - for standard output").Required();
  app.Add("--adapter", &options->adapter, "Only this adapter");
  app.Add("--peer", &options->peer, "Only with this host");
  app.Add("--filter", &options->capture.filter, "Instead: a filter in pcap's language");
  app.Add("--seconds", &options->seconds, "End after this time: 10, 2m");
  app.Add("--bytes", &options->bytes, "End after this much: 10MiB");
  app.Add("--count", &options->capture.packets, "End after this many packets");
  app.OnRun(context, [&context, options] { return Run(context, *options); });
}

}  // namespace nd::cli
