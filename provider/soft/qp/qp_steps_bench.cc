// SPDX-License-Identifier: Apache-2.0
// One thread moves messages between two queue pairs of this process. `tests/bench/instructions.sh`
// counts the instructions of a message with it: the figure depends on the code alone, not on the machine's
// load.
//
// usage: qp_steps_bench shared|ring|iwarp send|write|read SIZE COUNT [CONNECTIONS]
// With CONNECTIONS the messages go over so many in turn, all on one completion queue at either end.
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

void Move(Link link, std::string_view operation, std::size_t size, int count, std::size_t connections) {
  End a({}, false), b({}, false);
  Memory from(a, kLargest, true), to(b, kLargest, true);
  std::vector<std::shared_ptr<QueuePair>> of_a, of_b;
  for (std::size_t i = 0; i < connections; ++i) {
    of_a.push_back(i == 0 ? a.qp : a.device->CreateQueuePair(a.Options()).value());
    of_b.push_back(i == 0 ? b.qp : b.device->CreateQueuePair(b.Options()).value());
    HandOffs both = MakeHandOffs(link);
    if (!of_a[i]->Attach(std::move(both.active)).ok() || !of_b[i]->Attach(std::move(both.passive)).ok())
      std::exit(1);
  }
  const Sge out = from.At(0, size), in = to.At(0, size);
  for (int i = 0; i < count; ++i) {
    const std::size_t which = static_cast<std::size_t>(i) * 7 % connections;
    if (operation == "send") {
      (void)of_b[which]->Receive(nullptr, {&in, 1});
      (void)of_a[which]->Send(nullptr, {&out, 1}, 0);
      Take(b, a);
    } else if (operation == "write") {
      (void)of_a[which]->Write(nullptr, {&out, 1}, to.Address(), to.token(), 0);
    } else {
      (void)of_a[which]->Read(nullptr, {&out, 1}, to.Address(), to.token(), 0);
    }
    Take(a, b);
  }
}

}  // namespace
}  // namespace nd::provider::soft

int main(int argc, char** argv) {
  using nd::provider::soft::Link;
  const bool complete = argc == 5 || argc == 6;
  const std::string_view link = complete ? argv[1] : "", operation = complete ? argv[2] : "";
  const bool known = (link == "shared" || link == "ring" || link == "iwarp") &&
                     (operation == "send" || operation == "write" || operation == "read");
  const int size = known ? std::atoi(argv[3]) : 0;
  const int connections = argc == 6 ? std::atoi(argv[5]) : 1;
  if (size < 1 || size > nd::provider::soft::kLargest || std::atoi(argv[4]) < 1 || connections < 1) {
    std::fprintf(stderr,
                 "usage: qp_steps_bench shared|ring|iwarp send|write|read SIZE COUNT [CONNECTIONS]\n");
    return 2;
  }
  nd::provider::soft::Move(link == "shared" ? Link::kShared
                           : link == "ring" ? Link::kSharedRingOnly
                                            : Link::kIwarp,
                           operation, static_cast<std::size_t>(size), std::atoi(argv[4]),
                           static_cast<std::size_t>(connections));
  return 0;
}
