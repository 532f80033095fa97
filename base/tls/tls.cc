// SPDX-License-Identifier: Apache-2.0
// Contexts and the handshake. Every failure has a message that tells an operator what to do.
#include "base/tls/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/os/descriptor.h"
#include "base/os/file.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "base/tls/tls_impl.h"

namespace nd::tls {
namespace {

constexpr unsigned char kHttp2[] = {2, 'h', '2'};

std::string Reason() {
  const unsigned long error = ERR_peek_last_error();
  const char* text = error == 0 ? nullptr : ERR_reason_error_string(error);
  return text == nullptr ? "unknown reason" : text;
}

Status BadFile(const std::string& what, const std::string& file) {
  os::FileFacts facts;
  if (const int error = os::Look(file, &facts); error != 0) {
    return {StatusCode::kInvalidParameter, what + " " + file + ": " + std::strerror(error) +
                                               "; 'ndctl tls init DIR' makes a set for a trial"};
  }
  return {StatusCode::kInvalidParameter, what + " " + file + ": " + Reason()};
}

int ChooseHttp2(SSL*, const unsigned char** out, unsigned char* out_length, const unsigned char* in,
                unsigned in_length, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_length, kHttp2, sizeof kHttp2, in, in_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

std::vector<std::string> NamesOf(X509* certificate) {
  std::vector<std::string> names;
  auto* const alternatives =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(alternatives, i);
    if (name->type != GEN_DNS) continue;
    const ASN1_STRING* const text = name->d.dNSName;
    names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<std::size_t>(ASN1_STRING_length(text)));
  }
  GENERAL_NAMES_free(alternatives);
  if (names.empty()) {
    std::array<char, 256> common{};
    const int n = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common.data(),
                                            static_cast<int>(common.size()));
    if (n > 0) names.emplace_back(common.data(), static_cast<std::size_t>(n));
  }
  // A name with a zero byte is an attempt to be read as two different names.
  std::erase_if(names, [](const std::string& name) { return name.find('\0') != std::string::npos; });
  return names;
}

Status Refused(SSL* ssl, const std::string& host) {
  const long verdict = SSL_get_verify_result(ssl);
  if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return {StatusCode::kConnectionRefused, "the certificate of the other side is not for '" + host +
                                                "'; make one that names it, or use a name "
                                                "that it has"};
  }
  if (verdict != X509_V_OK) {
    return {StatusCode::kConnectionRefused, std::string("the certificate of the other side is not good: ") +
                                                X509_verify_cert_error_string(verdict)};
  }
  const unsigned long error = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE ||
                                            reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED)) {
    return {StatusCode::kConnectionRefused, "a certificate is asked for and none was shown"};
  }
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET) {
    return {StatusCode::kConnectionRefused, "the other side refuses our certificate: " + Reason()};
  }
  return {StatusCode::kConnectionAborted, "no TLS 1.3 is spoken there: " + Reason()};
}

}  // namespace

bool WaitFor(int fd, int ssl_error, Time deadline) {
  const Duration left = deadline - SystemClock().Now();
  if (left <= Duration()) return false;
  os::Watched wait[] = {{fd, ssl_error == SSL_ERROR_WANT_WRITE ? os::kWritable : os::kReadable}};
  return os::Wait(wait, left) >= 0 || errno == EINTR;
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::~Context() = default;

Result<std::shared_ptr<Context>> Context::Make(Side side, const Identity& identity) {
  // Threads in Pump() may still run when the program ends.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ERR_clear_error();
  auto impl = std::make_unique<Impl>();
  impl->side = side;
  impl->context.reset(SSL_CTX_new(side == Side::kClient ? TLS_client_method() : TLS_server_method()));
  SSL_CTX* const context = impl->context.get();
  if (context == nullptr) return Status(StatusCode::kNoMemory, "OpenSSL: " + Reason());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_alpn_select_cb(context, ChooseHttp2, nullptr);
  SSL_CTX_set_alpn_protos(context, kHttp2, sizeof kHttp2);

  os::FileFacts key;
  if (os::Look(identity.key, &key) == 0 && (key.permissions & 077) != 0) {
    return Status(StatusCode::kAccessDenied,
                  "the key " + identity.key + " can be read by others; make it 0600");
  }
  if (SSL_CTX_load_verify_locations(context, identity.authority.c_str(), nullptr) != 1) {
    return BadFile("the authority's certificate", identity.authority);
  }
  if (SSL_CTX_use_certificate_chain_file(context, identity.certificate.c_str()) != 1) {
    return BadFile("the certificate", identity.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, identity.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return BadFile("the key", identity.key);
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return Status(StatusCode::kInvalidParameter,
                  "the key " + identity.key + " is not that of the certificate " + identity.certificate);
  }
  return std::shared_ptr<Context>(new Context(std::move(impl)));
}

Result<Pipe> Open(const std::shared_ptr<Context>& context, UniqueFd socket, const std::string& host,
                  Duration timeout) {
  const Time deadline = Time(std::chrono::steady_clock::now()) + timeout;
  os::SetNonBlocking(socket.get());
  os::KeepTcpAlive(socket.get(), std::chrono::seconds(30), std::chrono::seconds(60));

  ERR_clear_error();
  std::unique_ptr<SSL, SslFree> ssl(SSL_new(context->impl().context.get()));
  if (!ssl || SSL_set_fd(ssl.get(), socket.get()) != 1)
    return Status(StatusCode::kNoMemory, "OpenSSL: " + Reason());
  if (context->impl().side == Side::kClient) {
    X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) != 1) {
      ERR_clear_error();
      SSL_set_tlsext_host_name(ssl.get(), host.c_str());
      X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
    }
    SSL_set_connect_state(ssl.get());
  } else {
    SSL_set_accept_state(ssl.get());
  }
  for (;;) {
    const int done = SSL_do_handshake(ssl.get());
    if (done == 1) break;
    const int error = SSL_get_error(ssl.get(), done);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return Refused(ssl.get(), host);
    if (!WaitFor(socket.get(), error, deadline)) {
      return Status(StatusCode::kIoTimeout, "the other side did not finish the TLS handshake in time");
    }
  }
  Pipe pipe;
  X509* const certificate = SSL_get1_peer_certificate(ssl.get());
  if (certificate == nullptr) return Refused(ssl.get(), host);
  pipe.names = NamesOf(certificate);
  X509_free(certificate);
  UniqueFd local;
  if (!os::MakeStreamPair(&pipe.plain, &local, /*blocking=*/true)) {
    return Status(StatusCode::kInsufficientResources, std::string("no socket pair: ") + std::strerror(errno));
  }
  std::thread([](const std::shared_ptr<Context>&, std::unique_ptr<SSL, SslFree> own, UniqueFd network,
                 UniqueFd inside) { Pump(std::move(own), std::move(network), std::move(inside)); },
              context, std::move(ssl), std::move(socket), std::move(local))
      .detach();
  return pipe;
}

}  // namespace nd::tls
