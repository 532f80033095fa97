// SPDX-License-Identifier: Apache-2.0
// Two managers over real sockets of the loopback interface: `a` connects, `p` listens.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "provider/soft/cm/cm_test_util.h"
#include "provider/soft/cm/soft_cm.h"

namespace nd::provider::soft {

class SoftCm : public CmFixture {
 protected:
  void OpenBoth(const std::function<void(Options&)>& change = {}) {
    ASSERT_NO_FATAL_FAILURE(Open(a, 1, change));
    ASSERT_NO_FATAL_FAILURE(Open(p, 2, change));
  }
  // Makes a request that waits at the passive side and returns its id there.
  CmId Request(std::uint64_t id = 1) {
    a.cm->Connect(To(TestAddress(1, 50001), TestAddress(2, 7000), id));
    const Recorded request = Next(p);
    EXPECT_EQ(request.kind, Recorded::kRequest);
    return request.id;
  }
  CmId Reply(std::uint64_t id = 1) {
    const CmId inbound = Request(id);
    AcceptParams accept;
    accept.limits = {8, 4};
    accept.private_data = {9};
    p.cm->Accept(inbound, accept);
    EXPECT_EQ(Next(a).kind, Recorded::kReply);
    return inbound;
  }
  void ExpectSilence() {
    Settle();
    EXPECT_TRUE(a.sink.events.empty() && p.sink.events.empty());
    EXPECT_EQ(a.cm->handshakes() + p.cm->handshakes(), 0u);
  }

  Host a, p;
};

// Makes the ND ports of the adapter TCP ports.
inline void Tcp(Options& options) {
  options.adapters[0].tcp_mode = true;
}

}  // namespace nd::provider::soft
