// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with certificates on both sides, as a pipe: the caller gets a plain socket, and what it writes
// there arrives at the other end of the network, and nowhere readable in between.
//
// One thread for each open pipe moves the bytes; it ends when either side hangs up. Any thread may call. The
// program ignores SIGPIPE: OpenSSL writes to sockets whose other end may be gone.
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
  std::string authority;  // Whom both sides trust to have signed the other's certificate.
};

enum class Side { kClient, kServer };

class Context {
 public:
  // INVALID_PARAMETER: a file is missing, unreadable, no PEM, or key and certificate do not belong together;
  // ACCESS_DENIED: others than its owner can read the key.
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
  // Of the peer's certificate: its DNS names, or its common name when it has none.
  std::vector<std::string> names;
};

// Shakes hands on a connected TCP socket. `host`, for a client, is the name or the IP address that the
// server's certificate must bear. CONNECTION_REFUSED: the other side's certificate, or ours at the other
// side, is not good enough, with the reason; IO_TIMEOUT; CONNECTION_ABORTED: no TLS is spoken there.
Result<Pipe> Open(const std::shared_ptr<Context>& context, UniqueFd socket, const std::string& host,
                  Duration timeout);

}  // namespace nd::tls
