// SPDX-License-Identifier: Apache-2.0
// Private networks for tests: namespaces, and a wire between two of them through the test, which decides the
// packets that pass. Needs root or unprivileged user namespaces. Ends with the test process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "tests/testing/process.h"

namespace nd::testing {

// Moves this process, which must have one thread, into a network namespace of its own, where it has every
// right: loopback is up, with 127/8 and fd00::1 to fd00::9. Returns "" or the reason of a failure.
std::string EnterPrivateNetwork();
bool InPrivateNetwork();
// False on a system that has only the network of its host.
bool HasNetworkNamespaces();
// Returns true when this process can start others as uid 65534: it is root, and its user namespace has that
// user. In the private network of an ordinary user getuid() is 0 as well, but there is no other user.
bool CanBeAnotherUser();
// For a machine that exists for the test only, whose network is private already.
void AdoptNetwork();

// Runs `ip ARGUMENTS`, in `ns` if >= 0. Returns its output on failure, "" on success.
std::string Ip(const std::string& arguments, int ns = -1);

// An empty network namespace with loopback up.
class Namespace {
 public:
  Namespace();  // Check ok().
  bool ok() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  pid_t holder() const { return holder_.pid(); }

 private:
  Process holder_;
  UniqueFd fd_;
};

// A frame between two namespaces.
struct Frame {
  int from = 0;               // Side, 0 or 1.
  bool transport = false;     // TCP, or RoCE v2 (UDP 4791), over IPv4.
  std::uint32_t payload = 0;  // Bytes behind the transport's header.
  bool syn = false, fin = false, rst = false;
};

// Two interfaces named `wire` in two namespaces, one cable through this process.
class Wire {
 public:
  // `a` gets address_a ("10.0.0.1/24"), `b` address_b. Check error().
  Wire(const Namespace& a, const std::string& address_a, const Namespace& b, const std::string& address_b);
  // A cable between two existing interfaces, which the wire takes over.
  Wire(const std::string& near_a, const std::string& near_b);
  ~Wire();
  const std::string& error() const { return error_; }
  // Sets the filter; without one all frames pass. Called on the thread of the wire.
  void SetFilter(std::function<bool(const Frame&)> passes);
  void Cut() {
    SetFilter([](const Frame&) { return false; });
  }
  void Mend() { SetFilter(nullptr); }
  std::uint64_t dropped() const { return dropped_; }

 private:
  bool Begin(int side, const std::string& name);
  void Run();
  std::string error_;
  UniqueFd ends_[2], stop_;
  std::string names_[2];  // The interfaces that this wire made.
  std::mutex mutex_;
  std::function<bool(const Frame&)> passes_;
  std::atomic<std::uint64_t> dropped_{0};
  std::thread thread_;
};

}  // namespace nd::testing
