// SPDX-License-Identifier: Apache-2.0
// Serves HTTP to people and monitoring on listening sockets, on a thread of its own.
//
// Each connection carries one request: whatever a client does, it holds one place for a moment and nothing
// else. Made, told to Serve() and destroyed by one thread; the handler runs on the responder's own thread and
// must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "daemon/ops/http_request.h"

namespace nd::ops {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpResponder {
 public:
  // To be called once, from any thread; late or after the responder's end it does nothing.
  using Answer = std::function<void(HttpAnswer)>;
  using Handler = std::function<void(const HttpRequest&, Answer)>;
  struct Options {
    std::uint32_t connections = 16;  // Per listening socket; as many more are told to come back.
    Duration request_time = std::chrono::seconds(1);  // From accept() to the end of the headers.
    Duration handler_time = std::chrono::seconds(3);  // Then the client is told 503.
    // A client that takes nothing of the answer for this long is cut off, and in any case after five times
    // that.
    Duration answer_time = std::chrono::seconds(1);
    // Names besides localhost and addresses that a Host header may have: a page of another site that made its
    // own name point here (DNS rebinding) must not read ours.
    std::vector<std::string> host_names;
    // Told the errno of each accept() that failed, on the responder's thread; null: nobody wants to know.
    std::function<void(int error)> on_accept_error;
  };

  HttpResponder(Options options, Handler handler);
  ~HttpResponder();
  HttpResponder(const HttpResponder&) = delete;
  HttpResponder& operator=(const HttpResponder&) = delete;

  // `listener` listens and does not block. `check_host` for TCP: what a browser can reach.
  void Serve(UniqueFd listener, bool check_host);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether an HTTP request may name this host: no name, an address, localhost or one of `names`.
bool IsOwnHost(const std::optional<std::string>& host, const std::vector<std::string>& names);

// The whole answer as bytes; the headers are the same for everything.
std::string EncodeHttpAnswer(const HttpAnswer& answer, bool head, std::int64_t unix_seconds);

}  // namespace nd::ops
