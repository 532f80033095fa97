// SPDX-License-Identifier: Apache-2.0
#include "cli/remote.h"

#include <cstdlib>

namespace nd::cli {

Failure ParseHost(const std::string& text, std::string* host, int* port) {
  *port = kGatewayPort;
  std::string rest;
  if (text.starts_with("[")) {
    const std::size_t end = text.find(']');
    *host = text.substr(1, end == std::string::npos ? end : end - 1);
    rest = end == std::string::npos ? "]" : text.substr(end + 1);
  } else if (const std::size_t colon = text.find(':');
             colon != std::string::npos && text.find(':', colon + 1) == std::string::npos) {
    *host = text.substr(0, colon);
    rest = text.substr(colon);
  } else {
    *host = text;  // A name, or an IPv6 address without a port.
  }
  if (!rest.empty()) {
    char* end = nullptr;
    const long number = rest[0] == ':' ? std::strtol(rest.c_str() + 1, &end, 10) : 0;
    if (number < 1 || number > 65535 || *end != '\0') *host = {};
    *port = static_cast<int>(number);
  }
  if (!host->empty()) return std::nullopt;
  return Error{Exit::kUsage, "--host " + text + " is no HOST, HOST:PORT or [IPv6]:PORT", {}, {}};
}

}  // namespace nd::cli
