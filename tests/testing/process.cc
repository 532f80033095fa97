// SPDX-License-Identifier: Apache-2.0
// The parts of process.h that are the same on every system.
#include "tests/testing/process.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

namespace nd::testing {

Process Process::OfThisBuild(const std::string& program, std::vector<std::string> arguments,
                             std::optional<std::uint32_t> uid) {
  SpawnOptions options;
  options.arguments = std::move(arguments);
  options.arguments.insert(options.arguments.begin(), BinaryDirectory() + "/" + program);
  options.uid = uid;
  return Spawn(options);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(std::exchange(other.status_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  Kill();
  pid_ = std::exchange(other.pid_, -1);
  status_ = std::exchange(other.status_, std::nullopt);
  return *this;
}

Process::~Process() {
  Kill();
}

bool Process::running() {
  return pid_ > 0 && !Wait(std::chrono::milliseconds(0));
}

void RemoveTree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::chrono::milliseconds Scaled(std::chrono::milliseconds timeout) {
  static const double factor = [] {
    const char* const text = std::getenv("NDBROKER_TIME_FACTOR");
    return text == nullptr ? 1.0 : std::clamp(std::strtod(text, nullptr), 1.0, 100.0);
  }();
  return std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(timeout.count()) * factor));
}

void NapBetweenPolls(std::chrono::steady_clock::duration waited) {
  using std::chrono::steady_clock;
  std::this_thread::sleep_for(std::clamp<steady_clock::duration>(waited / 8, std::chrono::milliseconds(1),
                                                                 std::chrono::milliseconds(25)));
}

}  // namespace nd::testing
