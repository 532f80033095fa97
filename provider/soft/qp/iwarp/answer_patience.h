// SPDX-License-Identifier: Apache-2.0
// Decides whether the answer to a confirmation waits for the next message of the application, which carries
// it without a system call of its own.
//
// An application that answers each message finds the message after the poll that received it, so the answer
// waits for one round more. An application that does not answer would only delay the completion of the peer.
//
// Thread rule: under the lock of the queue pair.
#pragma once

namespace nd::provider::soft {

class AnswerPatience {
 public:
  // A round begins.
  void OnRound() {
    if (alone_ != 0) --alone_;
  }
  // The round received nothing, and only the answer is to be sent. Returns true when it goes now.
  bool GoesAlone() {
    if (answers_ && !waited_) {
      waited_ = true;
      return false;
    }
    answers_ = waited_ = false;
    alone_ = kRoundsOfOnePoll;
    return true;
  }
  // The application posted a request.
  void OnPost() {
    // The answer of the round before waits, or would have done so in vain.
    answers_ = answers_ || waited_ || alone_ != 0;
    waited_ = false;
    alone_ = 0;
  }

 private:
  // A poll that sends makes another round.
  static constexpr unsigned kRoundsOfOnePoll = 2;

  bool answers_ = false;  // The application posts its message before the round after the next.
  bool waited_ = false;   // The answer has waited for a round.
  unsigned alone_ = 0;    // Not 0: the answer went alone so few rounds ago.
};

}  // namespace nd::provider::soft
