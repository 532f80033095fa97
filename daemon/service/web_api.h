// SPDX-License-Identifier: Apache-2.0
// What the broker's own page asks for, as JSON. Pure functions; any thread. No promise beyond the page that
// comes with this very broker: programs use the admin service or /metrics.
#pragma once

#include <string>

#include "daemon/ops/http_request.h"
#include "daemon/service/metrics_page.h"
#include "daemon/service/observatory.h"

namespace nd::service {

std::string StatusJson(const Picture& picture, const ProcessFacts& process, double uptime_seconds);
std::string ApplicationsJson(const Picture& picture);
// Query: filter (part of the id, application, address, adapter), sort (age, tx, rx, application, peer, id),
// order (asc, desc), offset, limit (at most kMostRows). INVALID_PARAMETER says which is wrong and what is
// right.
inline constexpr std::size_t kMostRows = 200;
Result<std::string> ConnectionsJson(const Picture& picture, const ops::HttpRequest& request);

}  // namespace nd::service
