// SPDX-License-Identifier: Apache-2.0
// The names in the record of a connection.
#include "daemon/core/record.h"

namespace nd::core {

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kQueue:
      return "queue";
    case Phase::kConnect:
      return "connect";
    case Phase::kReply:
      return "reply";
    case Phase::kComplete:
      return "complete";
    case Phase::kDeliver:
      return "deliver";
    case Phase::kAccept:
      return "accept";
    case Phase::kEstablish:
      return "establish";
  }
  return "?";
}

const char* OutcomeName(ConnectionRecord::Outcome outcome) {
  switch (outcome) {
    case ConnectionRecord::Outcome::kEstablished:
      return "established";
    case ConnectionRecord::Outcome::kClosed:
      return "closed";
    case ConnectionRecord::Outcome::kFailed:
      return "failed";
    case ConnectionRecord::Outcome::kBroken:
      return "broken";
    case ConnectionRecord::Outcome::kKilled:
      return "killed";
    case ConnectionRecord::Outcome::kDied:
      return "died";
  }
  return "?";
}

}  // namespace nd::core
