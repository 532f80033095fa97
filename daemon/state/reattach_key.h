// SPDX-License-Identifier: Apache-2.0
// The key of the proofs that hand-overs carry (core/proof.h): DIR/reattach.key, 0600, kept from one broker to
// the next.
//
// It is apart from the lease journal, so that nothing that costs the journal costs the proofs: a full
// directory, damage, five unexpected ends in a row. A key that is damaged or somebody else's is not used, and
// connections of before do not come back then; they go on without the broker.
#pragma once

#include <string>

#include "daemon/core/proof.h"
#include "daemon/state/siphash.h"

namespace nd::state {

inline constexpr char kReattachKeyName[] = "reattach.key";  // In the broker's directory.

class ReattachKey {
 public:
  // `boot` names this boot of the host; proofs of an earlier boot are not valid.
  ReattachKey(const std::string& directory, std::string boot);

  // Any thread.
  provider::Bytes Prove(const core::ConnectionFacts& facts) const;
  // The reason why the next broker will not know this key, or this broker does not know the former key;
  // otherwise empty.
  const std::string& problem() const { return problem_; }

 private:
  const std::string boot_;
  HashKey key_{};
  std::string problem_;
};

}  // namespace nd::state
