// SPDX-License-Identifier: Apache-2.0
// The data of the web page as JSON. Pure functions; any thread. The format may change with every version:
// other programs use the admin service or /metrics.
#pragma once

#include <string>

#include "daemon/metrics/http_request.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/observatory.h"

namespace nd::service {

std::string StatusJson(const Picture& picture, const ProcessFacts& process, double uptime_seconds);
std::string ApplicationsJson(const Picture& picture);
// Query: filter (part of the id, application, address, adapter), sort (age, tx, rx, application, peer, id),
// order (asc, desc), offset, limit (at most kMostRows). INVALID_PARAMETER names the wrong parameter and the
// accepted values.
inline constexpr std::size_t kMostRows = 200;
Result<std::string> ConnectionsJson(const Picture& picture, const ops::HttpRequest& request);

}  // namespace nd::service
