// SPDX-License-Identifier: Apache-2.0
// Captures packets into a file for Wireshark. Only capture_linux.cc uses libpcap.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/error.h"

namespace nd::cli {

struct CaptureOptions {
  std::string filter;  // A filter in the language of pcap.
  std::string file;    // "-": standard output.
  double seconds = 0;  // 0: no limit. The same holds for the limits below.
  std::uint64_t packets = 0, bytes = 0;
};

struct CaptureTotals {
  std::uint64_t packets = 0, bytes = 0, dropped = 0;
};

// Captures on every interface until a limit is reached or `ended` returns true; calls `progress` from time to
// time. Fails without permission (CAP_NET_RAW), for a file that cannot be written, and with a usage error for
// an invalid filter.
Failure Capture(const CaptureOptions& options, const std::function<bool()>& ended,
                const std::function<void(const CaptureTotals&)>& progress, CaptureTotals* totals);

// The filter for one TCP connection, both ways, and for a listening port. Addresses as "10.0.0.1" or
// "fd00::1".
std::string FilterOf(const std::string& local_ip, std::uint32_t local_port, const std::string& peer_ip,
                     std::uint32_t peer_port);
std::string FilterOf(std::uint32_t port, const std::string& peer_ip);

}  // namespace nd::cli
