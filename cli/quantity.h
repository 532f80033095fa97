// SPDX-License-Identifier: Apache-2.0
// Parses quantities and times in human notation.
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

// "10", "1.5h", "250ms", "64KiB": in seconds or bytes; a number without a unit is in that unit. Not negative.
Failure ParseQuantity(const std::string& text, Unit unit, double* value);

// "10m" (before `now`), "2026-11-21", "2026-11-21T10:00:00Z", "2026-11-21T10:00:00.5+02:00" or "now", as
// RFC 3339 in UTC. A day without a time begins at 00:00 UTC.
Failure ParseTime(const std::string& text, std::time_t now, std::string* utc);

// Seconds since 1970 of an RFC 3339 time, with its fraction; no value when it is malformed.
std::optional<double> SecondsOf(const std::string& time);

}  // namespace nd::cli
