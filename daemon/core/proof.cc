// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/proof.h"

namespace nd::core {

bool SameProof(const provider::Bytes& shown, const provider::Bytes& expected) {
  if (expected.empty() || shown.size() != expected.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference |= static_cast<unsigned>(shown[i]) ^ static_cast<unsigned>(expected[i]);
  }
  return difference == 0;
}

}  // namespace nd::core
