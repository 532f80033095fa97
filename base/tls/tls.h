// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with certificates on both sides, as a pipe: the caller gets a plain socket whose bytes travel
// encrypted to the other host.
//
// One thread for each open pipe moves the bytes and ends when either side closes. Any thread may call. The
// program must ignore SIGPIPE, because OpenSSL writes to sockets whose other end may be closed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::tls {

// PEM files.
struct Identity {
  std::string certificate, key;
  std::string authority;  // The certificate authority of both sides.
};

enum class Side { kClient, kServer };

class Context {
 public:
  // INVALID_PARAMETER: a file is missing, unreadable or not PEM, or the key does not match the certificate;
  // ACCESS_DENIED: users other than the owner can read the key.
  static Result<std::shared_ptr<Context>> Make(Side side, const Identity& identity);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct Pipe {
  UniqueFd plain;  // A stream socket, blocking.
  // The DNS names in the certificate of the peer, or its common name when it has none.
  std::vector<std::string> names;
};

// Runs the handshake on a connected TCP socket. `host`, for a client, is the name or IP address that the
// certificate of the server must have. CONNECTION_REFUSED, with the reason: one side does not accept the
// certificate of the other; IO_TIMEOUT; CONNECTION_ABORTED: the peer does not use TLS.
Result<Pipe> Open(const std::shared_ptr<Context>& context, UniqueFd socket, const std::string& host,
                  Duration timeout);

}  // namespace nd::tls
