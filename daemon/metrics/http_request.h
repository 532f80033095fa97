// SPDX-License-Identifier: Apache-2.0
// Parses and checks the one request of an HTTP connection. GET and HEAD only; a request has no body.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nd::ops {

// Request line and headers together.
inline constexpr std::size_t kMaxHttpRequest = 4096;

struct HttpRequest {
  bool head = false;  // HEAD: the response has no body.
  std::string path;   // As sent, so "/a%2Fb" is no "/a/b"; starts with '/'.
  // Decoded, in order. "?x" is {"x", ""}.
  std::vector<std::pair<std::string, std::string>> query;
  std::optional<std::string> host;  // Without the port, lower case, "[::1]" without brackets.

  // Returns the last value of `name`.
  std::optional<std::string_view> Query(std::string_view name) const;
};

// The refusal of a request: a status code and a message for the body.
struct HttpRefusal {
  int code = 400;
  std::string sentence;
};

struct HttpNeedsMore {};

// Checks the bytes so far, which may be arbitrary; wrong ones are refused as soon as they arrive. Codes: 400,
// 405, 413, 414, 431, 505.
std::variant<HttpNeedsMore, HttpRequest, HttpRefusal> ParseHttpRequest(std::string_view bytes);

// Returns "Bad Request" for 400, and so on.
std::string_view HttpReason(int code);

}  // namespace nd::ops
