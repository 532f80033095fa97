// SPDX-License-Identifier: Apache-2.0
// A small certificate authority for a trial or a test: one call makes every file that mutual TLS needs.
//
// Elliptic-curve keys (P-256), SHA-256, files in PEM; keys are 0600. Any thread.
#pragma once

#include <string>
#include <vector>

#include "nd/status.h"

namespace nd::tls {

struct CertificateSet {
  std::string directory;            // Made when it does not exist; 0700.
  std::vector<std::string> hosts;   // Names and IP addresses of the server.
  std::vector<std::string> people;  // One client certificate for each.
  int days = 365;
};

// Writes ca.pem, ca-key.pem, server.pem, server-key.pem, and NAME.pem, NAME-key.pem for each of `people`. A
// file that exists is never replaced: SHARING_VIOLATION, and nothing is written. INVALID_PARAMETER: an empty
// list, a name that cannot be the name of a file or a certificate; UNSUCCESSFUL: a file cannot be written.
Status MakeCertificates(const CertificateSet& set);

}  // namespace nd::tls
