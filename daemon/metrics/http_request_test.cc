// SPDX-License-Identifier: Apache-2.0
// Requests as text: valid, in pieces, and malformed.
#include "daemon/metrics/http_request.h"

#include <gtest/gtest.h>

namespace nd::ops {
namespace {

HttpRequest Good(std::string_view bytes) {
  const auto judged = ParseHttpRequest(bytes);
  if (const auto* refusal = std::get_if<HttpRefusal>(&judged)) {
    ADD_FAILURE() << refusal->code << " " << refusal->sentence;
  }
  const auto* request = std::get_if<HttpRequest>(&judged);
  return request != nullptr ? *request : HttpRequest{};
}

// Returns 0 when more bytes are needed, 200 when the request is valid.
int CodeOf(std::string_view bytes) {
  const auto judged = ParseHttpRequest(bytes);
  if (const auto* refusal = std::get_if<HttpRefusal>(&judged)) {
    EXPECT_TRUE(refusal->sentence.ends_with('.')) << refusal->sentence;
    EXPECT_NE(HttpReason(refusal->code), "Internal Server Error");
    return refusal->code;
  }
  return std::holds_alternative<HttpRequest>(judged) ? 200 : 0;
}

TEST(HttpRequest, ReadsTargetQueryAndHost) {
  const HttpRequest request = Good(
      "GET /api/connections?q=a%20b+c&page=2&x&page=3 HTTP/1.1\r\nHost: LocalHost:9885\r\nAccept: "
      "*/*\r\n\r\n");
  EXPECT_FALSE(request.head);
  EXPECT_EQ(request.path, "/api/connections");
  EXPECT_EQ(request.host, "localhost");
  EXPECT_EQ(request.Query("q"), "a b c");
  EXPECT_EQ(request.Query("page"), "3");
  EXPECT_EQ(request.Query("x"), "");
  EXPECT_EQ(request.Query("y"), std::nullopt);
  EXPECT_TRUE(Good("HEAD / HTTP/1.0\r\n\r\n").head);
  EXPECT_EQ(Good("GET / HTTP/1.1\nHost: [::1]:80\n\n").host, "::1") << "a bare line feed ends a line too";
  EXPECT_EQ(Good("GET http://a.example:81/x?y=1 HTTP/1.1\r\nHost: b\r\n\r\n").host, "a.example");
  EXPECT_EQ(Good("GET http://a HTTP/1.1\r\nHost: b\r\n\r\n").path, "/");
  EXPECT_EQ(Good("GET /a%2Fb HTTP/1.0\r\n\r\n").path, "/a%2Fb");
  EXPECT_EQ(Good("GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\nanything behind it").path, "/");
}

TEST(HttpRequest, NeedsEveryByteUpToTheEmptyLine) {
  const std::string whole = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9885\r\nUser-Agent: x\r\n\r\n";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(CodeOf(whole.substr(0, size)), 0) << size;
  }
  EXPECT_EQ(CodeOf(whole), 200);
}

TEST(HttpRequest, RefusesWithTheRightCode) {
  const struct {
    int code;
    std::string_view bytes;
  } cases[] = {
      {400, "GET\r\n"},
      {400, "GET /\r\n"},
      {400, "GET  HTTP/1.1\r\n"},
      {400, "GET /a b HTTP/1.1\r\n"},
      {400, "G(T / HTTP/1.1\r\n"},
      {400, "\r\nGET / HTTP/1.1\r\n"},
      {400, "\x16\x03\x01\x02"},
      {400, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"},
      {400, "GET metrics HTTP/1.0\r\n"},
      {400, "GET * HTTP/1.0\r\n"},
      {400, "GET / HTML/1.1\r\n"},
      {400, "GET /?q=%4 HTTP/1.0\r\n"},
      {400, "GET /?q=%zz HTTP/1.0\r\n"},
      {400, "GET /?q=%0a HTTP/1.0\r\n"},
      {400, "GET /?%00=1 HTTP/1.0\r\n"},
      {400, "GET /\x80 HTTP/1.0\r\n"},
      {400, "GET http:/// HTTP/1.0\r\n"},
      {400, "GET http://a:b/ HTTP/1.0\r\n"},
      {400, "GET / HTTP/1.1\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n"},
      {400, "GET / HTTP/1.1\r\nHost:\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a b\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a,b\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: [::1\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a:123456\r\n"},
      {400, "GET / HTTP/1.1\r\nHost : a\r\n"},
      {400, "GET / HTTP/1.1\r\nno colon\r\n"},
      {400, "GET / HTTP/1.1\r\n: x\r\n"},
      {400, "GET / HTTP/1.1\r\nA: b\r\n folded\r\n"},
      {400, "GET / HTTP/1.1\r\nA: b\rc\r\n"},
      {400, std::string_view("GET / HTTP/1.1\r\nA: b\0c\r\n", 24)},
      {405, "POST / HTTP/1.1\r\n"},
      {405, "OPTIONS * HTTP/1.1\r\n"},
      {405, "get / HTTP/1.1\r\n"},
      {413, "GET / HTTP/1.1\r\nContent-Length: 1\r\n"},
      {413, "GET / HTTP/1.1\r\ntransfer-ENCODING: chunked\r\n"},
      {505, "PRI * HTTP/2.0\r\n"},
      {505, "GET / HTTP/1.2\r\n"},
  };
  for (const auto& c : cases) EXPECT_EQ(CodeOf(c.bytes), c.code) << c.bytes;
}

TEST(HttpRequest, HasASizeLimit) {
  const std::string line = "GET /" + std::string(kMaxHttpRequest - 5, 'a');
  EXPECT_EQ(CodeOf(line.substr(0, kMaxHttpRequest - 1)), 0);
  EXPECT_EQ(CodeOf(line), 414);
  EXPECT_EQ(CodeOf(line + " HTTP/1.0\r\n\r\n"), 414) << "nothing behind the cap is looked at";
  const std::string start = "GET / HTTP/1.0\r\nA: ";
  const std::string headers = start + std::string(kMaxHttpRequest - start.size(), 'b');
  EXPECT_EQ(CodeOf(headers.substr(0, kMaxHttpRequest - 1)), 0);
  EXPECT_EQ(CodeOf(headers), 431);
  EXPECT_EQ(CodeOf(headers.substr(0, kMaxHttpRequest - 4) + "\r\n\r\n"), 200) << "exactly the cap";
}

}  // namespace
}  // namespace nd::ops
