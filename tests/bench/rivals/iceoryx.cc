// SPDX-License-Identifier: Apache-2.0
// iceoryx: publish and take between two processes that poll; half a round trip. RouDi must run.
#include <atomic>
#include <cstring>
#include <string>

#include "iceoryx_posh/popo/untyped_publisher.hpp"
#include "iceoryx_posh/popo/untyped_subscriber.hpp"
#include "iceoryx_posh/runtime/posh_runtime.hpp"
#include "tests/bench/rivals/rival.h"

namespace nd::rivals {
namespace {

iox::capro::IdString_t Name(const std::string& text) {
  return {iox::cxx::TruncateToCapacity, text};
}

class End {
 public:
  End(const std::string& instance, bool first)
      : runtime_(Start(instance + (first ? "a" : "b"))),
        publisher_({"Bench", Name(instance), Name(first ? "there" : "back")}),
        subscriber_({"Bench", Name(instance), Name(first ? "back" : "there")}) {
    while (!publisher_.hasSubscribers() ||
           subscriber_.getSubscriptionState() != iox::SubscribeState::SUBSCRIBED) {
      usleep(1000);
    }
  }
  void Send(const std::vector<char>& bytes) {
    auto loan = publisher_.loan(static_cast<std::uint32_t>(bytes.size()));
    if (loan.has_error()) Fail("iceoryx", "no chunk of that size");
    std::memcpy(loan.value(), bytes.data(), bytes.size());
    publisher_.publish(loan.value());
  }
  void Receive() {
    for (;;) {
      auto taken = subscriber_.take();
      if (taken.has_error()) continue;
      subscriber_.release(taken.value());
      return;
    }
  }

 private:
  static iox::runtime::PoshRuntime& Start(const std::string& name) {
    return iox::runtime::PoshRuntime::initRuntime({iox::cxx::TruncateToCapacity, name});
  }
  iox::runtime::PoshRuntime& runtime_;
  iox::popo::UntypedPublisher publisher_;
  iox::popo::UntypedSubscriber subscriber_;
};

void PingPong(const Plan& plan) {
  auto& ready = Share<std::atomic<int>>();
  const std::string instance = "nd" + std::to_string(getpid());
  const std::vector<char> bytes(plan.size, 1);
  const Peer peer(plan.peer_cpu, [&] {
    End end(instance, false);
    ++ready;
    for (;;) {
      end.Receive();
      end.Send(bytes);
    }
  });
  floors::PinTo(plan.cpu);
  End end(instance, true);
  while (ready == 0) usleep(1000);
  const double seconds = floors::MedianOfBatches(plan, 100, [&] {
    end.Send(bytes);
    end.Receive();
  });
  Print(seconds / 2 * 1e6, "us");
}

}  // namespace
}  // namespace nd::rivals

int main(int argc, char** argv) {
  const auto arguments = nd::rivals::ParseArguments(argc, argv);
  nd::rivals::PingPong(arguments.plan);
  std::fflush(stdout);
  _exit(0);
}
