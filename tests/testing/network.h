// SPDX-License-Identifier: Apache-2.0
// Networks of a test's own: namespaces, and a wire between two of them on which the test sits and decides
// which packets pass. Needs root, or user namespaces for everybody. Gone with the test process.
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

// Moves this (still single-threaded) process into a network namespace of its own, where it may do everything
// and no other run is in the way: loopback up, 127/8 and fd00::1 to fd00::9 there. "" or why not.
std::string EnterPrivateNetwork();
bool InPrivateNetwork();
// For a machine that exists for the test alone: its network is private as it is.
void AdoptNetwork();

// Runs `ip ARGUMENTS` (in `ns` if >= 0); its output when it failed, "" when it worked.
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
  bool transport = false;     // What connections are made of: TCP, or RoCE v2 (UDP 4791); IPv4.
  std::uint32_t payload = 0;  // Bytes behind the transport's header.
  bool syn = false, fin = false, rst = false;
};

// Two interfaces named `wire` in two namespaces, one cable through this process.
class Wire {
 public:
  // `a` gets address_a ("10.0.0.1/24"), `b` address_b. Check error().
  Wire(const Namespace& a, const std::string& address_a, const Namespace& b, const std::string& address_b);
  // A cable between two interfaces that are there already and belong to nobody else: the ends are taken over.
  Wire(const std::string& near_a, const std::string& near_b);
  ~Wire();
  const std::string& error() const { return error_; }
  // Which frames pass; none set: all. Called on the wire's thread.
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
  std::string names_[2];  // Of what this wire made.
  std::mutex mutex_;
  std::function<bool(const Frame&)> passes_;
  std::atomic<std::uint64_t> dropped_{0};
  std::thread thread_;
};

}  // namespace nd::testing
