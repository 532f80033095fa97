// SPDX-License-Identifier: Apache-2.0
// Strict where two readers of one request could disagree; other features of HTTP are ignored.
#include "daemon/metrics/http_request.h"

#include <algorithm>
#include <cstdint>

namespace nd::ops {
namespace {

constexpr std::size_t kMaxMethod = 24;

bool IsTokenByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}
bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenByte);
}
bool IsVisible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}
// Returns true for the text of a field value: no control character except the tab.
bool IsFieldText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<std::uint8_t>(c);
    return (byte >= 0x20 && byte != 0x7f) || byte == '\t';
  });
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns nothing when a '%' has no two hexadecimal digits, or the result has a control character.
std::optional<std::string> Decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i] == '+' ? ' ' : text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
      const auto byte = static_cast<std::uint8_t>(c);
      if (byte < 0x20 || byte == 0x7f) return std::nullopt;
    }
    out += c;
  }
  return out;
}

bool ReadQuery(std::string_view text, HttpRequest* out) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const auto name = Decode(pair.substr(0, equals));
    const auto value = Decode(equals == pair.size() ? "" : pair.substr(equals + 1));
    if (!name || !value) return false;
    out->query.emplace_back(*name, *value);
  }
  return true;
}

// Returns the host of "host", "host:80" or "[::1]:80" without port and brackets; nothing for any other text.
std::optional<std::string> ReadHost(std::string_view text) {
  std::string_view host = text, rest;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  if (!rest.empty() && (rest[0] != ':' || rest.size() > 6)) return std::nullopt;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!rest.empty() && !std::all_of(rest.begin() + 1, rest.end(), digit)) return std::nullopt;
  const auto plain = [&](char c) { return IsTokenByte(c) || c == ':'; };
  if (host.empty() || !std::all_of(host.begin(), host.end(), plain)) return std::nullopt;
  return Lower(host);
}

std::optional<HttpRefusal> ReadRequestLine(std::string_view line, HttpRequest* out, bool* needs_host) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return HttpRefusal{400, "The first line of the request must be like \"GET /metrics HTTP/1.1\"."};
  }
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  std::string_view target = line.substr(first + 1, last - first - 1);
  if (!IsToken(method) || target.empty() || !IsVisible(target)) {
    return HttpRefusal{400, "The first line of the request must be like \"GET /metrics HTTP/1.1\"."};
  }
  if (!version.starts_with("HTTP/")) {
    return HttpRefusal{400, "The request's first line must end with HTTP/1.1 or HTTP/1.0."};
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return HttpRefusal{505, "Only HTTP/1.1 and HTTP/1.0 are supported."};
  }
  if (method != "GET" && method != "HEAD") {
    return HttpRefusal{405, "This interface is read-only: use GET or HEAD, not " + std::string(method) + "."};
  }
  *needs_host = version == "HTTP/1.1";
  out->head = method == "HEAD";
  if (const std::string scheme = Lower(target.substr(0, 7)); scheme == "http://") {
    target.remove_prefix(7);
    const std::size_t slash = std::min(target.find_first_of("/?"), target.size());
    out->host = ReadHost(target.substr(0, slash));
    if (!out->host) return HttpRefusal{400, "The request's target names no host."};
    target.remove_prefix(slash);
  }
  const std::size_t question = std::min(target.find('?'), target.size());
  out->path = target.substr(0, question);
  if (out->path.empty() && out->host) out->path = "/";
  if (!out->path.starts_with('/')) return HttpRefusal{400, "The request's target must start with a slash."};
  if (question < target.size() && !ReadQuery(target.substr(question + 1), out)) {
    return HttpRefusal{400, "The request's query has a % without two hexadecimal digits of text after it."};
  }
  return std::nullopt;
}

std::optional<HttpRefusal> ReadField(std::string_view line, bool* seen_host, HttpRequest* out) {
  const std::size_t colon = line.find(':');
  // Readers disagree about a blank before the colon and about folded lines.
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon)) || !IsFieldText(line)) {
    return HttpRefusal{400, "A header of the request is not of the form \"Name: value\"."};
  }
  const std::string name = Lower(line.substr(0, colon));
  const std::string_view value = Trim(line.substr(colon + 1));
  if (name == "host") {
    if (*seen_host) return HttpRefusal{400, "The request has more than one Host header."};
    *seen_host = true;
    const auto host = ReadHost(value);
    if (!host) return HttpRefusal{400, "The request's Host header is not a host name or address."};
    if (!out->host) out->host = host;  // The host in the target takes precedence over the header.
  } else if (name == "transfer-encoding" || (name == "content-length" && value != "0")) {
    return HttpRefusal{413, "A request must not have a body."};
  }
  return std::nullopt;
}

HttpRefusal TooLong(bool first_line) {
  const std::string limit = std::to_string(kMaxHttpRequest) + " bytes";
  if (first_line) return {414, "The request's first line is longer than " + limit + "."};
  return {431, "The request's headers are longer than " + limit + "."};
}

}  // namespace

std::optional<std::string_view> HttpRequest::Query(std::string_view name) const {
  for (auto it = query.rbegin(); it != query.rend(); ++it) {
    if (it->first == name) return it->second;
  }
  return std::nullopt;
}

std::variant<HttpNeedsMore, HttpRequest, HttpRefusal> ParseHttpRequest(std::string_view bytes) {
  const std::string_view all = bytes.substr(0, kMaxHttpRequest);
  HttpRequest request;
  bool needs_host = false, seen_host = false, first = true;
  for (std::size_t at = 0;;) {
    const std::size_t newline = all.find('\n', at);
    if (newline == std::string_view::npos) {
      const std::string_view rest = all.substr(at);
      // Another protocol (TLS, for example) is refused at once.
      if (first && (!IsToken(rest.substr(0, std::min(rest.find(' '), kMaxMethod))) && !rest.empty())) {
        return HttpRefusal{400, "This port serves plain HTTP, and the request is not HTTP."};
      }
      if (first && rest.size() > kMaxMethod && rest.find(' ') > kMaxMethod) {
        return HttpRefusal{400, "The request does not start with a method such as GET."};
      }
      if (all.size() == kMaxHttpRequest) return TooLong(first);
      return HttpNeedsMore{};
    }
    std::string_view line = all.substr(at, newline - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = newline + 1;
    if (line.empty() && !first) break;
    const auto refusal =
        first ? ReadRequestLine(line, &request, &needs_host) : ReadField(line, &seen_host, &request);
    if (refusal) return *refusal;
    first = false;
  }
  if (needs_host && !seen_host) return HttpRefusal{400, "An HTTP/1.1 request needs a Host header."};
  return request;
}

std::string_view HttpReason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

}  // namespace nd::ops
