// SPDX-License-Identifier: Apache-2.0
// Serves HTTP for people and monitoring on listening sockets, on a thread of its own.
//
// Each connection carries one request. A client can only hold one slot for a short time, and a silent client
// loses its slot to a later one (ops/source_slots.h). One thread makes it, calls Serve() and destroys it; the
// handler runs on the thread of the responder and must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "daemon/metrics/http_request.h"

namespace nd::ops {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpResponder {
 public:
  // To be called once, from any thread; has no effect when it is late or after the end of the responder.
  using Answer = std::function<void(HttpAnswer)>;
  using Handler = std::function<void(const HttpRequest&, Answer)>;
  struct Options {
    // Served at once for each listening socket, three quarters of them for one source; further clients get a
    // refusal. Four times as many may be open.
    std::uint32_t connections = 16;
    Duration request_time = std::chrono::seconds(1);  // From accept() to the end of the headers.
    Duration handler_time = std::chrono::seconds(3);  // Then the client gets 503.
    // A client that reads nothing for this long is disconnected, and every client after five times that.
    Duration answer_time = std::chrono::seconds(1);
    // Host names that are accepted besides localhost and addresses. Other names are refused, because a page
    // of another site could point its own name here (DNS rebinding) and read the responses.
    std::vector<std::string> host_names;
    // Receives the errno of each accept() that failed, on the thread of the responder; may be null.
    std::function<void(int error)> on_accept_error;
  };

  HttpResponder(Options options, Handler handler);
  ~HttpResponder();
  HttpResponder(const HttpResponder&) = delete;
  HttpResponder& operator=(const HttpResponder&) = delete;

  struct Terms {
    bool check_host = false;  // For TCP, which a browser can reach.
    // Returns the message of a 403 for every request on this connection; empty to serve it. On the thread of
    // the responder; null serves every connection.
    std::function<std::string(int fd)> refuse;
  };
  // `listener` is a listening non-blocking socket.
  void Serve(UniqueFd listener, Terms terms);
  // Returns a function that runs functions on the thread of the responder; without effect after its end. Any
  // thread.
  std::function<void(std::function<void()>)> Poster() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns whether an HTTP request may name this host: no name, an address, localhost or one of `names`.
bool IsOwnHost(const std::optional<std::string>& host, const std::vector<std::string>& names);

// Returns the whole response as bytes, with the same headers for every response.
std::string EncodeHttpAnswer(const HttpAnswer& answer, bool head, std::int64_t unix_seconds);

}  // namespace nd::ops
