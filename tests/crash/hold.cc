// SPDX-License-Identifier: Apache-2.0
// The shim maps the file at its start; a change takes effect at the next system call of the process.
#include "tests/crash/hold.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>

#include "base/unique_fd.h"
#include "tests/testing/process.h"

namespace nd::crash {

Hold::Hold(const std::string& directory, const std::string& name, int harness)
    : path_(directory + "/" + name + ".hold") {
  const UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  void* mapped = MAP_FAILED;
  if (fd && ftruncate(fd.get(), sizeof(ShimControl)) == 0) {
    mapped = mmap(nullptr, sizeof(ShimControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (mapped == MAP_FAILED) {
    std::perror(path_.c_str());
    std::abort();
  }
  control_ = new (mapped) ShimControl;
  control_->harness = harness;
}

Hold::~Hold() {
  munmap(control_, sizeof(ShimControl));
}

Hold::Preload::Preload(const Hold& hold) {
  const std::string shim = nd::testing::BinaryDirectory() + "/libnd_crash_shim.so";
  setenv("LD_PRELOAD", shim.c_str(), 1);
  setenv(kControlVariable, hold.path_.c_str(), 1);
}
Hold::Preload::~Preload() {
  unsetenv("LD_PRELOAD");
  unsetenv(kControlVariable);
}

void Hold::Arm(Point point, bool after, int nth, Act act) {
  Disarm();
  control_->point = point;
  control_->after = after ? 1 : 0;
  control_->act = act;
  control_->countdown = nth;
  control_->counted = 0;
  control_->reached = 0;
  control_->call[0] = '\0';
  control_->armed.store(1, std::memory_order_release);
}
void Hold::ArmFailure(Point point, std::uint64_t place, Act act) {
  Disarm();
  control_->place = place;
  Arm(point, false, 1, act);
}
void Hold::Disarm() {
  if (control_->armed.exchange(0) == 2) WaitReached(std::chrono::seconds(10));
}

std::vector<std::uint64_t> Hold::places() const {
  const std::size_t count = std::min<std::size_t>(counted(), std::size(control_->places));
  return {control_->places, control_->places + count};
}

bool Hold::WaitReached(std::chrono::milliseconds patience) const {
  return nd::testing::Eventually([&] { return reached(); }, patience);
}

}  // namespace nd::crash
