// SPDX-License-Identifier: Apache-2.0
// The command line, with defaults that end within seconds for every operation.
#include "tests/bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>

namespace nd::perf {
namespace {

const std::map<std::string, Role> kRoles = {
    {"parent", Role::kParent}, {"server", Role::kServer}, {"client", Role::kClient}};
const std::map<std::string, Transport> kTransports = {{"local", Transport::kLocal},
                                                      {"iwarp", Transport::kIwarp}};
const std::map<std::string, Op> kOps = {{"connect", Op::kConnect},
                                        {"send", Op::kSend},
                                        {"write", Op::kWrite},
                                        {"read", Op::kRead},
                                        {"resolve", Op::kResolve}};
const std::map<std::string, Metric> kMetrics = {
    {"lat", Metric::kLatency}, {"rate", Metric::kRate}, {"bw", Metric::kBandwidth}};

template <typename T>
const char* NameIn(const std::map<std::string, T>& names, T value) {
  for (const auto& [name, candidate] : names) {
    if (candidate == value) return name.c_str();
  }
  return "?";
}

// Adds an option that takes one of the names of a map.
template <typename T>
CLI::Option* AddChoice(CLI::App& app, const std::string& flag, T* out, const std::map<std::string, T>& names,
                       const std::string& about) {
  const auto set = [out, &names, flag](const std::string& word) {
    const auto found = names.find(word);
    if (found == names.end()) {
      std::string all;
      for (const auto& [name, value] : names) all += (all.empty() ? "" : ", ") + name;
      throw CLI::ValidationError(flag, "'" + word + "' is not one of " + all);
    }
    *out = found->second;
  };
  return app.add_option_function<std::string>(flag, set, about);
}

std::string WhatIsWrong(const Options& o) {
  if (o.op == Op::kConnect && o.metric == Metric::kBandwidth)
    return "connect has no bandwidth; use --metric lat or rate";
  if (o.op == Op::kResolve && o.metric == Metric::kBandwidth)
    return "resolve has no bandwidth; use --metric lat or rate";
  if (o.histogram && o.metric != Metric::kLatency) return "--histogram shows latencies; use --metric lat";
  if (o.waiting != Waiting::kPoll && o.op == Op::kWrite && o.metric == Metric::kLatency) {
    return std::string("the latency of a write is measured by polling memory; --") + Name(o.waiting) +
           " is not possible";
  }
  if (o.warmup && o.iterations != 0 && *o.warmup >= o.iterations && o.metric != Metric::kLatency) {
    return "--warmup counts among the --iterations of rate and bw, and must be less";
  }
  if (!o.crc && !(o.self && o.transport == Transport::kIwarp)) {
    return "--no-crc is a setting of the brokers that --self --transport iwarp starts";
  }
  if (o.self && !(o.broker.empty() && o.peer_broker.empty()))
    return "--self starts its own brokers; leave out --broker";
  if (o.role == Role::kParent && !o.self && o.transport == Transport::kIwarp && o.peer_broker.empty()) {
    return "iwarp needs two brokers: --self, or --broker DIR and --peer-broker DIR";
  }
  if (o.transport == Transport::kLocal && !o.peer_broker.empty())
    return "local has one broker; leave out --peer-broker";
  if (o.self && !o.adapter.empty()) return "--adapter names an adapter of a running broker; leave out --self";
  if (!o.cpus.empty() && o.pin) return "--cpus pins already; leave out --pin";
  if (o.cpus.size() > 2 && !o.self) return "--cpus pins the brokers that --self starts; give two CPUs";
  if (o.batch > 1 &&
      (o.metric != Metric::kLatency || !(o.op == Op::kSend || o.op == Op::kWrite || o.op == Op::kRead))) {
    return "--batch is for the latency of send, write and read";
  }
  if (o.iterations != 0 && o.iterations < o.batch) return "--iterations is less than one --batch";
  if (o.touch && o.op != Op::kSend) return "--touch is for send, whose receiver gets each message";
  if (o.ordinary_memory && (o.op == Op::kConnect || o.op == Op::kResolve))
    return "--malloc is for send, write and read";
  if (o.metric == Metric::kLatency && o.window > 1)
    return "latency is measured one at a time; leave out --window";
  return {};
}

// The buffers of both ends stay in a cache of 1 MiB, so that a measurement of copies does not measure memory.
// Pages are spread unevenly over a cache: Writes of 64 KiB over shared memory had 52 GB/s with 128 KiB at
// each end, and 31 to 52 with 256.
constexpr std::uint32_t kLocalWindowBytes = 128U << 10, kWireWindowBytes = 256U << 10;

void SetCounts(Options* o) {
  if (o->metric == Metric::kLatency) {
    o->window = 1;
    if (o->iterations == 0) {
      o->iterations = o->op == Op::kConnect   ? 500
                      : o->op == Op::kResolve ? 5000
                                              : std::clamp<std::uint32_t>((1U << 30) / o->size, 200, 20000);
    }
    return;
  }
  if (o->op == Op::kConnect || o->op == Op::kResolve) {
    if (o->window == 0) o->window = 8;
    if (o->iterations == 0) o->iterations = o->op == Op::kConnect ? 2000 : 50000;
    return;
  }
  if (o->window == 0) {
    // In shared memory a request completes while it is posted, so a second large request would only use more
    // of the cache.
    const bool local = o->transport == Transport::kLocal;
    o->window = std::clamp<std::uint32_t>((local ? kLocalWindowBytes : kWireWindowBytes) / o->size,
                                          local ? 1 : 2, 64);
  }
  if (o->iterations == 0) {
    o->iterations = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>((std::uint64_t{4} << 30) / o->size, 500, 500000));
  }
}

void SetDefaults(Options* o) {
  SetCounts(o);
  if (!o->warmup) o->warmup = std::min<std::uint32_t>(o->iterations / 10, 1000);
}

}  // namespace

const char* Name(Transport transport) {
  return NameIn(kTransports, transport);
}
const char* Name(Op op) {
  return NameIn(kOps, op);
}
const char* Name(Metric metric) {
  return NameIn(kMetrics, metric);
}

const char* Name(Waiting waiting) {
  constexpr const char* kNames[] = {"poll", "block", "notify"};
  return kNames[static_cast<int>(waiting)];
}

std::vector<std::string> Options::EndArguments(Role end, const std::string& broker_directory,
                                               const std::string& end_address, int fd) const {
  std::vector<std::string> arguments = {"ndperf",
                                        "--role",
                                        NameIn(kRoles, end),
                                        "--transport",
                                        Name(transport),
                                        "--op",
                                        Name(op),
                                        "--metric",
                                        Name(metric),
                                        "--size",
                                        std::to_string(size),
                                        "--iterations",
                                        std::to_string(iterations),
                                        "--broker",
                                        broker_directory,
                                        "--address",
                                        end_address,
                                        "--report-fd",
                                        std::to_string(fd)};
  if (metric != Metric::kLatency) arguments.insert(arguments.end(), {"--window", std::to_string(window)});
  if (!adapter.empty()) arguments.insert(arguments.end(), {"--adapter", adapter});
  if (waiting != Waiting::kPoll) arguments.push_back(std::string("--") + Name(waiting));
  arguments.insert(arguments.end(), {"--warmup", std::to_string(warmup.value_or(0))});
  if (batch > 1) arguments.insert(arguments.end(), {"--batch", std::to_string(batch)});
  if (touch) arguments.push_back("--touch");
  if (ordinary_memory) arguments.push_back("--malloc");
  if (progress && end == Role::kClient) arguments.push_back("--progress");
  return arguments;
}

std::optional<int> Parse(int argc, char** argv, Options* options) {
  CLI::App app("Measures one operation between two processes that are connected through ndbroker", "ndperf");
  AddChoice(app, "--transport", &options->transport, kTransports, "local (shared memory) or iwarp (TCP)");
  AddChoice(app, "--op", &options->op, kOps,
            "connect, send, write, read, or resolve (a call that the broker answers)");
  AddChoice(app, "--metric", &options->metric, kMetrics, "lat, rate or bw");
  app.add_option("--size", options->size, "Bytes of each message")->check(CLI::Range(1U, 1U << 28));
  app.add_option("--iterations", options->iterations, "How many")->check(CLI::Range(1U, 1U << 30));
  app.add_option(
         "--window", options->window,
         "In flight at once, for rate and bw (default: as much as stays in the cache); for resolve: threads")
      ->check(CLI::Range(1U, 1024U));
  app.add_option("--warmup", options->warmup, "The first requests, which are not counted (default: a tenth)")
      ->check(CLI::Range(0U, 1U << 30));
  app.add_option("--batch", options->batch,
                 "Take the time once for so many messages; latencies are then means of a batch (default: 1)")
      ->check(CLI::Range(1U, 10000U));
  auto* waiting = app.add_option_group("waiting")->require_option(0, 1);
  const auto add_waiting = [&](Waiting which, const char* about) {
    waiting->add_flag_callback(
        std::string("--") + Name(which), [=] { options->waiting = which; }, about);
  };
  add_waiting(Waiting::kPoll, "Wait by polling (default)");
  add_waiting(Waiting::kBlock, "Wait by sleeping in Wait");
  add_waiting(Waiting::kNotify, "Wait by Notify and poll() of the completion queue's descriptor");
  app.add_flag("--touch", options->touch, "The receiver reads every byte of every message");
  app.add_flag("--malloc", options->ordinary_memory,
               "Messages are in ordinary memory, not in memory that the library allocates");
  app.add_flag("--pin", options->pin, "Pin each end to a CPU of its own");
  app.add_option(
         "--cpus", options->cpus,
         "Pin the client, the server, the client's broker and the server's broker to these CPUs, such as "
         "0,1,0,1; those left out are not pinned")
      ->delimiter(',')
      ->expected(1, 4)
      ->check(CLI::Range(0, 1023));
  app.add_flag("!--no-crc", options->crc, "Without CRC32c on the wire");
  app.add_flag("--self", options->self,
               "Start the broker, or for iwarp both brokers, in a temporary directory");
  app.add_option("--broker", options->broker, "Directory of the broker to use (default: found by itself)");
  app.add_option("--peer-broker", options->peer_broker, "Directory of the other host's broker, for iwarp");
  app.add_option("--adapter", options->adapter,
                 "Adapter of the broker to measure, such as rxe0 (default: its first)");
  app.add_flag("--json", options->json, "One JSON object");
  app.add_flag("--histogram", options->histogram, "Also print how many latencies are in each range");
  AddChoice(app, "--role", &options->role, kRoles, "")->group("");
  app.add_option("--address", options->address, "IP of the server's side (default: its broker's first)");
  app.add_option("--report-fd", options->report_fd, "")->group("");
  app.add_flag("--progress", options->progress)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const std::string wrong = WhatIsWrong(*options); !wrong.empty()) {
    std::cerr << "ndperf: " << wrong << "\n";
    return 2;
  }
  SetDefaults(options);
  return std::nullopt;
}

}  // namespace nd::perf
