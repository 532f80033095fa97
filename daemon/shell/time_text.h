// SPDX-License-Identifier: Apache-2.0
// Converts times to and from RFC 3339 text, for display and for requests. Pure; any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace nd::service {

using WallTime = std::chrono::system_clock::time_point;

// Returns a text such as "2026-02-03T04:05:06.789Z".
std::string TimeText(WallTime time);
// Accepts "2026-02-03T04:05:06Z", with up to nine digits of a second, and with an offset ("+02:00") instead
// of the Z. Empty for any other text, such as the 30th of February.
std::optional<WallTime> ParseTime(std::string_view text);

}  // namespace nd::service
