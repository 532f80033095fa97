// SPDX-License-Identifier: Apache-2.0
// libpcap does the capture; this file decides when to stop.
#include "cli/capture.h"

#include <pcap/pcap.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "base/os/wait.h"

namespace nd::cli {
namespace {

struct Close {
  void operator()(pcap_t* pcap) const { pcap_close(pcap); }
  void operator()(pcap_dumper_t* dumper) const { pcap_dump_close(dumper); }
};

}  // namespace

std::string FilterOf(const std::string& local_ip, std::uint32_t local_port, const std::string& peer_ip,
                     std::uint32_t peer_port) {
  const auto way = [](const std::string& from, std::uint32_t from_port, const std::string& to,
                      std::uint32_t to_port) {
    return "(src host " + from + " and src port " + std::to_string(from_port) + " and dst host " + to +
           " and dst port " + std::to_string(to_port) + ")";
  };
  return "tcp and (" + way(local_ip, local_port, peer_ip, peer_port) + " or " +
         way(peer_ip, peer_port, local_ip, local_port) + ")";
}

std::string FilterOf(std::uint32_t port, const std::string& peer_ip) {
  return "tcp port " + std::to_string(port) + (peer_ip.empty() ? "" : " and host " + peer_ip);
}

Failure Capture(const CaptureOptions& options, const std::function<bool()>& ended,
                const std::function<void(const CaptureTotals&)>& progress, CaptureTotals* totals) {
  char error[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, Close> pcap(pcap_create("any", error));
  if (!pcap) return Error{Exit::kFailed, std::string("no capture: ") + error, {}, {}};
  pcap_set_snaplen(pcap.get(), 262144);
  pcap_set_timeout(pcap.get(), 50);
  pcap_set_buffer_size(pcap.get(), 32 * 1024 * 1024);
  const int active = pcap_activate(pcap.get());
  if (active == PCAP_ERROR_PERM_DENIED) {
    return Error{Exit::kPermission,
                 "capturing needs the right to open packet sockets",
                 "run ndctl as root or with CAP_NET_RAW",
                 {}};
  }
  if (active < 0) return Error{Exit::kFailed, std::string("no capture: ") + pcap_geterr(pcap.get()), {}, {}};
  bpf_program program{};
  if (pcap_compile(pcap.get(), &program, options.filter.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
    return Error{
        Exit::kUsage, "the filter '" + options.filter + "' is wrong: " + pcap_geterr(pcap.get()), {}, {}};
  }
  const bool filtered = pcap_setfilter(pcap.get(), &program) == 0;
  pcap_freecode(&program);
  if (!filtered) return Error{Exit::kFailed, std::string("no filter: ") + pcap_geterr(pcap.get()), {}, {}};
  const std::unique_ptr<pcap_dumper_t, Close> dumper(pcap_dump_open(pcap.get(), options.file.c_str()));
  if (!dumper) return Error{Exit::kFailed, pcap_geterr(pcap.get()), {}, {}};
  pcap_dump_flush(dumper.get());  // A reader of a pipe needs the header at once.
  // A blocking read returns only with a packet, regardless of the time-out.
  if (pcap_setnonblock(pcap.get(), 1, error) != 0) return Error{Exit::kFailed, error, {}, {}};
  os::Watched wait[] = {{pcap_get_selectable_fd(pcap.get())}};
  progress(*totals);

  const auto start = std::chrono::steady_clock::now();
  const auto enough = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return ended() || (options.seconds > 0 && passed.count() >= options.seconds) ||
           (options.packets > 0 && totals->packets >= options.packets) ||
           (options.bytes > 0 && totals->bytes >= options.bytes);
  };
  while (!enough()) {
    pcap_pkthdr* header = nullptr;
    const unsigned char* data = nullptr;
    const int got = pcap_next_ex(pcap.get(), &header, &data);
    if (got < 0)
      return Error{Exit::kFailed, std::string("the capture broke: ") + pcap_geterr(pcap.get()), {}, {}};
    if (got == 0) {  // No packet now: flush, so that the file can be read.
      if (pcap_dump_flush(dumper.get()) != 0)
        return Error{Exit::kFailed, "cannot write " + options.file, {}, {}};
      progress(*totals);
      os::Wait(wait, std::chrono::milliseconds(50));
      continue;
    }
    pcap_dump(reinterpret_cast<unsigned char*>(dumper.get()), header, data);
    ++totals->packets;
    totals->bytes += header->caplen;
    if (totals->packets % 1024 == 0) progress(*totals);
  }
  pcap_stat stat{};
  if (pcap_stats(pcap.get(), &stat) == 0) totals->dropped = stat.ps_drop;
  if (pcap_dump_flush(dumper.get()) != 0) return Error{Exit::kFailed, "cannot write " + options.file, {}, {}};
  return std::nullopt;
}

}  // namespace nd::cli
