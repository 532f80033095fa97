// SPDX-License-Identifier: Apache-2.0
// One thread moves messages between two queue pairs of this process. `tests/bench/instructions.sh`
// counts the instructions of a message with it: the figure depends on the code alone, not on the machine's
// load.
//
// usage: qp_steps_bench shared|ring|iwarp send|write|read SIZE COUNT
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

void Take(End& end, End& other) {
  Completion done;
  while (end.cq->Poll({&done, 1}) == 0) {
    Completion none;
    other.cq->Poll({&none, 0});
  }
  if (done.status == StatusCode::kSuccess) return;
  std::fprintf(stderr, "failed: %s\n", std::string(Name(done.status)).c_str());
  std::exit(1);
}

constexpr int kLargest = 1024 * 1024;

void Move(Link link, std::string_view operation, std::size_t size, int count) {
  End a({}, false), b({}, false);
  Memory from(a, kLargest, true), to(b, kLargest, true);
  HandOffs both = MakeHandOffs(link);
  if (!a.qp->Attach(std::move(both.active)).ok() || !b.qp->Attach(std::move(both.passive)).ok()) std::exit(1);
  const Sge out = from.At(0, size), in = to.At(0, size);
  for (int i = 0; i < count; ++i) {
    if (operation == "send") {
      (void)b.qp->Receive(nullptr, {&in, 1});
      (void)a.qp->Send(nullptr, {&out, 1}, 0);
      Take(b, a);
    } else if (operation == "write") {
      (void)a.qp->Write(nullptr, {&out, 1}, to.Address(), to.token(), 0);
    } else {
      (void)a.qp->Read(nullptr, {&out, 1}, to.Address(), to.token(), 0);
    }
    Take(a, b);
  }
}

}  // namespace
}  // namespace nd::provider::soft

int main(int argc, char** argv) {
  using nd::provider::soft::Link;
  const std::string_view link = argc == 5 ? argv[1] : "", operation = argc == 5 ? argv[2] : "";
  const bool known = (link == "shared" || link == "ring" || link == "iwarp") &&
                     (operation == "send" || operation == "write" || operation == "read");
  const int size = known ? std::atoi(argv[3]) : 0;
  if (size < 1 || size > nd::provider::soft::kLargest || std::atoi(argv[4]) < 1) {
    std::fprintf(stderr, "usage: qp_steps_bench shared|ring|iwarp send|write|read SIZE COUNT\n");
    return 2;
  }
  nd::provider::soft::Move(link == "shared" ? Link::kShared
                           : link == "ring" ? Link::kSharedRingOnly
                                            : Link::kIwarp,
                           operation, static_cast<std::size_t>(size), std::atoi(argv[4]));
  return 0;
}
