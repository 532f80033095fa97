// SPDX-License-Identifier: Apache-2.0
// Moves bytes after the handshake until one side closes.
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/tls/tls_impl.h"

namespace nd::tls {
namespace {

struct Buffer {
  std::array<char, 16384> bytes;
  std::size_t begin = 0, end = 0;
  bool over = false;  // No more bytes will arrive.
  bool empty() const { return begin == end; }
};

// The events for poll(), and whether the pipe continues.
struct Turn {
  short network = 0, local = 0;
  bool moved = false, broken = false;
  void Want(int ssl_error) {
    if (ssl_error == SSL_ERROR_WANT_READ) {
      network |= POLLIN;
    } else if (ssl_error == SSL_ERROR_WANT_WRITE) {
      network |= POLLOUT;
    } else {
      broken = true;
    }
  }
};

void FromNetwork(SSL* ssl, int local, Buffer* in, Turn* turn) {
  if (in->empty() && !in->over) {
    ERR_clear_error();
    const int got = SSL_read(ssl, in->bytes.data(), static_cast<int>(in->bytes.size()));
    if (got > 0) {
      in->begin = 0;
      in->end = static_cast<std::size_t>(got);
      turn->moved = true;
    } else {
      const int error = SSL_get_error(ssl, got);
      if (error == SSL_ERROR_ZERO_RETURN) {
        in->over = true;
      } else {
        turn->Want(error);
      }
    }
  }
  if (in->empty()) return;
  const ssize_t sent =
      ::send(local, in->bytes.data() + in->begin, in->end - in->begin, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) {
    in->begin += static_cast<std::size_t>(sent);
    turn->moved = true;
  } else if (errno == EAGAIN) {
    turn->local |= POLLOUT;
  } else if (errno != EINTR) {
    turn->broken = true;
  }
}

void FromInside(SSL* ssl, int local, Buffer* out, Turn* turn) {
  if (out->empty() && !out->over) {
    const ssize_t got = ::recv(local, out->bytes.data(), out->bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      out->begin = 0;
      out->end = static_cast<std::size_t>(got);
      turn->moved = true;
    } else if (got == 0) {
      out->over = true;
    } else if (errno == EAGAIN) {
      turn->local |= POLLIN;
    } else if (errno != EINTR) {
      turn->broken = true;
    }
  }
  if (out->empty()) return;
  ERR_clear_error();
  const int sent = SSL_write(ssl, out->bytes.data() + out->begin, static_cast<int>(out->end - out->begin));
  if (sent > 0) {
    out->begin += static_cast<std::size_t>(sent);
    turn->moved = true;
  } else {
    turn->Want(SSL_get_error(ssl, sent));
  }
}

}  // namespace

void Pump(std::unique_ptr<SSL, SslFree> ssl, UniqueFd network, UniqueFd local) {
  Buffer in, out;
  for (;;) {
    Turn turn;
    FromNetwork(ssl.get(), local.get(), &in, &turn);
    if (!turn.broken) FromInside(ssl.get(), local.get(), &out, &turn);
    if (turn.broken) return;
    // HTTP/2 has no half-closed connections, so the end of one side ends both.
    if ((in.over && in.empty()) || (out.over && out.empty())) {
      SSL_shutdown(ssl.get());
      return;
    }
    if (turn.moved) continue;
    pollfd wait[2] = {{network.get(), turn.network, 0}, {local.get(), turn.local, 0}};
    if (::poll(wait, 2, -1) < 0 && errno != EINTR) return;
    // poll() reports a hang-up even when it is not requested; without this check the loop would spin.
    if (turn.local == 0 && (wait[1].revents & (POLLHUP | POLLERR)) != 0) return;
    if (turn.network == 0 && (wait[0].revents & (POLLHUP | POLLERR)) != 0) return;
  }
}

}  // namespace nd::tls
