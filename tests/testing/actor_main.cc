// SPDX-License-Identifier: Apache-2.0
// A process around the public API that executes the commands of a test. A case kills, stops or forks this
// process as it would an application.
#include <cstdio>

#include "tests/testing/actor_state.h"
#include "tests/testing/channel.h"
#include "tests/testing/process.h"

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
  nd::testing::IgnoreBrokenStreams();
  nd::testing::AllowManyDescriptors();
  nd::testing::ActorState state;
  nd::testing::Serve([&](const std::string& message) { return state.Answer(message); });
  // The test has ended or asks for a crash: end without destructors, as a crashed application does.
  std::_Exit(0);
}
