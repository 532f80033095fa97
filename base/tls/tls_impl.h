// SPDX-License-Identifier: Apache-2.0
// Internal declarations of tls.cc and tls_pump_linux.cc.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "base/tls/tls.h"

namespace nd::tls {

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

struct Context::Impl {
  Side side = Side::kClient;
  std::unique_ptr<SSL_CTX, SslFree> context;
};

// Moves bytes between the two until either closes; runs on a thread of its own.
void Pump(std::unique_ptr<SSL, SslFree> ssl, UniqueFd network, UniqueFd local);

// Waits for the event that SSL_get_error named; returns false at the deadline.
bool WaitFor(int fd, int ssl_error, Time deadline);

}  // namespace nd::tls
