// SPDX-License-Identifier: Apache-2.0
// A process around the public API that does what a test tells it to. Everything a case does to an
// application (kill it, stop it, fork it) happens to this process.
#include <csignal>
#include <cstdio>

#include "tests/testing/actor_state.h"
#include "tests/testing/channel.h"

namespace nd::testing {

std::string ActorState::Answer(const std::string& message) {
  Reader in(message);
  Writer out;
  const Verb verb = in.Get<Verb>();
  if (AnswerSession(verb, in, out) || AnswerConnection(verb, in, out) || AnswerOp(verb, in, out) ||
      AnswerData(verb, in, out) || AnswerMemory(verb, in, out) || AnswerWhole(verb, in, out)) {
    // An empty answer means that the process is gone.
    return out.bytes().empty() ? std::string(1, '\0') : out.bytes();
  }
  std::fprintf(stderr, "nd_actor: unknown verb %d\n", static_cast<int>(verb));
  std::abort();
}

}  // namespace nd::testing

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  nd::testing::ActorState state;
  nd::testing::Serve([&](const std::string& message) { return state.Answer(message); });
  // The test is gone or wants a sudden death: leave as a crashed application would.
  std::_Exit(0);
}
