// SPDX-License-Identifier: Apache-2.0
// The headers of every response, which prevent other uses of it in a browser.
#include <algorithm>
#include <array>
#include <ctime>

#include "base/os/ip_address.h"
#include "base/utc_time.h"
#include "daemon/metrics/http_responder.h"

namespace nd::ops {

bool IsOwnHost(const std::optional<std::string>& host, const std::vector<std::string>& names) {
  if (!host || *host == "localhost" || host->ends_with(".localhost")) return true;
  std::array<std::uint8_t, 16> binary;
  if (os::ParseIp(*host, &binary) != 0) return true;
  return std::find(names.begin(), names.end(), *host) != names.end();
}

std::string EncodeHttpAnswer(const HttpAnswer& answer, bool head, std::int64_t unix_seconds) {
  const std::tm utc = UtcParts(unix_seconds);
  std::array<char, 64> date{};
  std::strftime(date.data(), date.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  std::string out = "HTTP/1.1 " + std::to_string(answer.code) + " " + std::string(HttpReason(answer.code)) +
                    "\r\nDate: " + date.data() + "\r\nContent-Type: " + answer.type +
                    "\r\nContent-Length: " + std::to_string(answer.body.size()) +
                    "\r\nConnection: close"
                    "\r\nCache-Control: no-store"
                    "\r\nX-Content-Type-Options: nosniff"
                    "\r\nReferrer-Policy: no-referrer"
                    "\r\nCross-Origin-Resource-Policy: same-origin"
                    "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
                    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'";
  if (answer.code == 405) out += "\r\nAllow: GET, HEAD";
  out += "\r\n\r\n";
  if (!head) out += answer.body;
  return out;
}

}  // namespace nd::ops
