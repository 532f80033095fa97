// SPDX-License-Identifier: Apache-2.0
// Distinguishes errors that gRPC would all report as "unavailable": unknown name, no listener, refused
// certificate.
#include "cli/remote.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/os/socket.h"
#include "base/tls/tls.h"

namespace nd::cli {
namespace {

Failure Unreachable(const Remote& remote, const std::string& why) {
  return Error{Exit::kUnreachable,
               "no gateway answers at " + remote.host + ": " + why,
               "ndbroker-gateway must run there and listen on an address that can be reached from here",
               {}};
}

std::string TlsDirectory(const Remote& remote) {
  if (!remote.tls.empty()) return remote.tls;
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && config[0] == '/') {
    return std::string(config) + "/ndctl/tls";
  }
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.config/ndctl/tls";
}

// The one client certificate of the directory.
Failure FindIdentity(const std::string& directory, tls::Identity* identity) {
  std::vector<std::string> stems;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kEnd = "-key.pem";
    if (!name.ends_with(kEnd) || name == "ca-key.pem" || name == "server-key.pem") continue;
    stems.push_back(directory + "/" + name.substr(0, name.size() - kEnd.size()));
  }
  if (error) {
    return Error{Exit::kUsage,
                 "no certificates in " + directory + ": " + error.message(),
                 "name their directory with --tls; 'ndctl tls init DIR' makes a set for a trial",
                 {}};
  }
  if (stems.size() != 1) {
    return Error{
        Exit::kUsage,
        directory + " has " + (stems.empty() ? "no" : "more than one") + " NAME-key.pem of a client",
        "put ca.pem and exactly one NAME.pem with NAME-key.pem there, or name another directory with --tls",
        {}};
  }
  *identity = {stems.front() + ".pem", stems.front() + "-key.pem", directory + "/ca.pem"};
  return std::nullopt;
}

}  // namespace

bool CanDialRemote() {
  return true;
}

Failure DialRemote(const Remote& remote, double timeout_seconds, UniqueFd* plain) {
  using std::chrono::steady_clock;
  const auto deadline =
      steady_clock::now() + std::chrono::microseconds(static_cast<long long>(timeout_seconds * 1e6));
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
  };
  std::string host;
  int port = 0;
  if (Failure failure = ParseHost(remote.host, &host, &port)) return failure;
  tls::Identity identity;
  if (Failure failure = FindIdentity(TlsDirectory(remote), &identity)) return failure;
  const Result<std::shared_ptr<tls::Context>> context = tls::Context::Make(tls::Side::kClient, identity);
  if (!context.ok()) return Error{Exit::kUsage, context.status().message(), {}, {}};

  os::Dialled dialled = os::ConnectTcp(host, static_cast<std::uint16_t>(port), deadline);
  if (dialled.error == ETIMEDOUT && !dialled.socket) {
    return Error{
        Exit::kTimeout, "the host " + remote.host + " did not answer in time", "try a longer --timeout", {}};
  }
  if (!dialled.socket) return Unreachable(remote, dialled.reason);
  Result<tls::Pipe> pipe = tls::Open(context.value(), std::move(dialled.socket), host,
                                     std::max(left(), std::chrono::milliseconds(1)));
  if (pipe.ok()) {
    *plain = std::move(pipe->plain);
    return std::nullopt;
  }
  const std::string why = pipe.status().message();
  if (pipe.code() == StatusCode::kConnectionRefused) {
    return Error{Exit::kPermission,
                 remote.host + ": " + why,
                 "both sides must trust the authority that signed the other's certificate",
                 {}};
  }
  if (pipe.code() == StatusCode::kIoTimeout) return Error{Exit::kTimeout, remote.host + ": " + why, {}, {}};
  return Unreachable(remote, why);
}

}  // namespace nd::cli
