// SPDX-License-Identifier: Apache-2.0
// Quantities and times as people write them.
//
// Pure; any thread. Every failure is a usage error that names the text
// and what was expected.
#pragma once

#include <ctime>
#include <optional>
#include <string>

#include "cli/error.h"

namespace nd::cli {

enum class Unit { kAny, kSeconds, kBytes };

// "10", "1.5h", "250ms", "64KiB": in seconds or bytes; a number alone is taken as it is. Not negative.
Failure ParseQuantity(const std::string& text, Unit unit, double* value);

// "10m" (before `now`), "2026-11-21", "2026-11-21T10:00:00Z", "2026-11-21T10:00:00.5+02:00" or "now", as
// RFC 3339 in UTC. A day without a time begins at 00:00 UTC.
Failure ParseTime(const std::string& text, std::time_t now, std::string* utc);

// Seconds since 1970 of an RFC 3339 time, with its fraction; nothing when it is none.
std::optional<double> SecondsOf(const std::string& time);

}  // namespace nd::cli
