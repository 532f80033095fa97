// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP request in pieces: the result does not depend on the pieces, and a parsed request
// contains no value that the rest of the responder would have to check again.
//
// Input: the bytes.
#include <string>

#include "daemon/metrics/http_request.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

using Verdict = decltype(ops::ParseHttpRequest(""));

bool Printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c != 0x7F; });
}

Verdict Parse(std::string_view bytes) {
  // An allocation of its own, so that a read beyond the end is detected.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return ops::ParseHttpRequest({exact.data(), exact.size()});
}

bool Same(const Verdict& a, const Verdict& b) {
  if (a.index() != b.index()) return false;
  if (const auto* request = std::get_if<ops::HttpRequest>(&a)) {
    const auto& other = std::get<ops::HttpRequest>(b);
    return request->head == other.head && request->path == other.path && request->query == other.query &&
           request->host == other.host;
  }
  if (const auto* refusal = std::get_if<ops::HttpRefusal>(&a)) {
    return refusal->code == std::get<ops::HttpRefusal>(b).code;
  }
  return true;
}

void Check(std::string_view bytes, const Verdict& verdict) {
  if (const auto* request = std::get_if<ops::HttpRequest>(&verdict)) {
    Require(request->path.starts_with('/'), "a path starts at the root");
    for (const char c : request->path)
      Require(static_cast<unsigned char>(c) > 0x20 && c != 0x7F, "a path is visible");
    if (request->host) Require(!request->host->empty() && Printable(*request->host), "a host is a name");
    for (const auto& [name, value] : request->query) {
      Require(request->Query(name).has_value(), "a query that is there is found");
      for (const char c : name + value) Require(static_cast<unsigned char>(c) >= 0x20, "a query is text");
    }
    Require(bytes.starts_with(request->head ? "HEAD " : "GET ") || bytes[0] == '\n' || bytes[0] == '\r',
            "only GET and HEAD are served");
  } else if (const auto* refusal = std::get_if<ops::HttpRefusal>(&verdict)) {
    Require(refusal->code >= 400 && refusal->code < 600 && !refusal->sentence.empty() &&
                ops::HttpReason(refusal->code) != "Internal Server Error",
            "a refusal says why");
  } else {
    Require(bytes.size() < ops::kMaxHttpRequest, "a request that is too long is not waited for");
  }
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const int code : {200, 404, 408, 421, 503, static_cast<int>(size)}) {
    Require(!nd::ops::HttpReason(code).empty(), "every answer has a reason");
  }
  const Verdict whole = Parse(bytes);
  Check(bytes, whole);
  // The first verdict for growing pieces equals that for the whole input, unless the whole has further bytes.
  const std::size_t step = 1 + size / 24;
  for (std::size_t have = 0; have < size; have += step) {
    const Verdict early = Parse(bytes.substr(0, have));
    Check(bytes.substr(0, have), early);
    if (std::holds_alternative<nd::ops::HttpNeedsMore>(early)) continue;
    if (std::holds_alternative<nd::ops::HttpRefusal>(early)) {
      Require(std::holds_alternative<nd::ops::HttpRefusal>(whole), "what is refused early is refused");
    } else {
      Require(Same(early, whole), "bytes behind a request change nothing");
    }
    break;
  }
  return 0;
}
