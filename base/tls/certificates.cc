// SPDX-License-Identifier: Apache-2.0
// Makes certificates with OpenSSL, whose calls need this order.
#include "base/tls/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "base/os/file.h"
#include "base/os/ip_address.h"

namespace nd::tls {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

struct Signed {
  Key key;
  Certificate certificate;
};

struct Wanted {
  std::string common_name;
  const char* usage;         // Extended key usage; null: an authority.
  std::string alternatives;  // "DNS:a,IP:1.2.3.4"; empty: none.
};

bool Extend(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

// Signed by `authority`, or self-signed when `authority` is null.
bool Make(const Wanted& wanted, const Signed* authority, int days, Signed* made) {
  made->key.reset(EVP_EC_gen("P-256"));
  made->certificate.reset(X509_new());
  X509* const certificate = made->certificate.get();
  if (!made->key || certificate == nullptr) return false;
  std::uint64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) return false;
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -300);  // A margin for hosts whose clocks differ.
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400L * days);
  X509_set_pubkey(certificate, made->key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(wanted.common_name.c_str()), -1, -1, 0);
  X509* const issuer = authority == nullptr ? certificate : authority->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  const bool is_authority = wanted.usage == nullptr;
  bool good = Extend(certificate, issuer, NID_basic_constraints,
                     is_authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
              Extend(certificate, issuer, NID_key_usage,
                     is_authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
              Extend(certificate, issuer, NID_subject_key_identifier, "hash");
  if (!is_authority) good = good && Extend(certificate, issuer, NID_ext_key_usage, wanted.usage);
  if (!wanted.alternatives.empty()) {
    good = good && Extend(certificate, issuer, NID_subject_alt_name, wanted.alternatives.c_str());
  }
  EVP_PKEY* const signer = authority == nullptr ? made->key.get() : authority->key.get();
  return good && X509_sign(certificate, signer, EVP_sha256()) != 0;
}

bool IsIp(const std::string& text) {
  std::array<std::uint8_t, 16> ip;
  return os::ParseIp(text, &ip) != 0;
}

// Allows letters, digits and the punctuation of host names, so that a name cannot add a field to the
// extension.
bool GoodName(const std::string& name) {
  if (name.empty() || name.size() > 64 || name.front() == '.' || name.front() == '-') return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
         std::string::npos;
}

Status Write(const std::string& path, os::Readers readers, const std::function<bool(BIO*)>& print) {
  const std::unique_ptr<BIO, Free> memory(BIO_new(BIO_s_mem()));
  if (!memory || !print(memory.get())) return {StatusCode::kUnsuccessful, "OpenSSL cannot print " + path};
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  const int error = os::WriteNewFile(path, {text, static_cast<std::size_t>(size)}, readers);
  if (error != 0) return {StatusCode::kUnsuccessful, "cannot write " + path + ": " + std::strerror(error)};
  return {};
}

Status Write(const std::string& stem, const Signed& made) {
  Status key = Write(stem + "-key.pem", os::Readers::kOwner, [&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, made.key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  });
  if (!key.ok()) return key;
  return Write(stem + ".pem", os::Readers::kEveryone,
               [&](BIO* out) { return PEM_write_bio_X509(out, made.certificate.get()) == 1; });
}

}  // namespace

Status MakeCertificates(const CertificateSet& set) {
  if (set.hosts.empty() || set.people.empty() || set.days < 1 || set.days > 3650) {
    return {StatusCode::kInvalidParameter,
            "a set of certificates needs a host, a person, and 1 to 3650 days of validity"};
  }
  std::string alternatives;
  for (const std::string& host : set.hosts) {
    if (!IsIp(host) && !GoodName(host)) {
      return {StatusCode::kInvalidParameter, "'" + host + "' is neither a host's name nor an IP address"};
    }
    alternatives += (alternatives.empty() ? "" : ",") + std::string(IsIp(host) ? "IP:" : "DNS:") + host;
  }
  for (const std::string& person : set.people) {
    if (!GoodName(person) || person == "ca" || person == "server") {
      return {
          StatusCode::kInvalidParameter,
          "'" + person +
              "' cannot name a client; letters, digits, '.', '-' and '_' can, 'ca' and 'server' are taken"};
    }
  }
  if (const int error = os::MakePrivateDirectory(set.directory); error != 0 && error != EEXIST) {
    return {StatusCode::kUnsuccessful, "cannot make " + set.directory + ": " + std::strerror(error)};
  }
  std::vector<std::string> stems = {"ca", "server"};
  stems.insert(stems.end(), set.people.begin(), set.people.end());
  for (const std::string& stem : stems) {
    for (const char* const end : {".pem", "-key.pem"}) {
      const std::string path = set.directory + "/" + stem + end;
      os::FileFacts facts;
      if (os::LookAtLink(path, &facts) == 0) {
        return {StatusCode::kSharingViolation, path + " exists; remove it or name another directory"};
      }
    }
  }
  Signed authority, server;
  Status failed(StatusCode::kUnsuccessful, "OpenSSL cannot make a certificate");
  if (!Make({"ndbroker trial authority", nullptr, {}}, nullptr, set.days, &authority)) return failed;
  if (!Make({set.hosts.front().substr(0, 64), "serverAuth", alternatives}, &authority, set.days, &server))
    return failed;
  if (Status s = Write(set.directory + "/ca", authority); !s.ok()) return s;
  if (Status s = Write(set.directory + "/server", server); !s.ok()) return s;
  for (const std::string& person : set.people) {
    Signed client;
    if (!Make({person, "clientAuth", "DNS:" + person}, &authority, set.days, &client)) return failed;
    if (Status s = Write(set.directory + "/" + person, client); !s.ok()) return s;
  }
  return {};
}

}  // namespace nd::tls
