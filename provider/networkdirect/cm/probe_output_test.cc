// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/cm/probe_output.h"

#include <gtest/gtest.h>

namespace nd::provider::networkdirect {
namespace {

AdapterInfo Adapter() {
  AdapterInfo info;
  info.adapter_id = 0xFFFFFFFFFFFFFFFE;
  info.max_inbound_read_limit = 16;
  info.max_caller_data = 56;
  info.max_callee_data = 148;
  info.flags = kAdapterLoopback;
  info.addresses = {Address::Parse("192.0.2.7").value(), Address::Parse("fe80::1").value()};
  return info;
}

TEST(NetworkDirectProbe, DescribesEachAdapter) {
  AdapterInfo second = Adapter();
  second.adapter_id = 2;
  second.addresses.clear();
  const auto all = ReadProbe(LineOf(Adapter()) + LineOf(second) + "done\r\n", 0);
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(LineOf((*all)[0]), LineOf(Adapter()));
  EXPECT_EQ((*all)[1].adapter_id, 2u);
}

TEST(NetworkDirectProbe, ADllThatEndsItsProcessIsNamed) {
  const Status status = ReadProbe(LineOf(Adapter()), 0xC0000005).status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceNotReady);
  EXPECT_NE(status.message().find("0xC0000005"), std::string::npos) << status.message();
  EXPECT_EQ(ReadProbe("Unhandled exception: page fault\nRegister dump:\n", 0xC0000005).status().message(),
            status.message());
}

TEST(NetworkDirectProbe, TheReasonOfAFailureIsKept) {
  const Status status = ReadProbe("failed C:\\none.dll cannot be loaded (126)\r\ndone\r\n", 1).status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceNotReady);
  EXPECT_EQ(status.message(), "C:\\none.dll cannot be loaded (126)");
}

TEST(NetworkDirectProbe, OtherTextIsRefused) {
  for (const char* text : {"hello\ndone\n", "adapter id=x\ndone\n", "adapter id=99999999999999999999\ndone\n",
                           "adapter vendor=4294967296\ndone\n", "adapter address=1.2.3.4:5\ndone\n",
                           "adapter colour=1\ndone\n", "adapter id\ndone\n", "done\nadapter id=1\n"}) {
    EXPECT_EQ(ReadProbe(text, 0).code(), StatusCode::kRemoteError) << text;
  }
}

TEST(NetworkDirectProbe, MorePrivateDataThanAMessageTakesIsCut) {
  const auto all =
      ReadProbe("adapter caller-data=4294967295 callee-data=4294967295 flags=4294967295\ndone\n", 0);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ((*all)[0].max_caller_data, 8192u);
  EXPECT_EQ((*all)[0].max_callee_data, 8192u);
  EXPECT_EQ((*all)[0].flags & kAdapterNoDatagrams, 0u);
}

}  // namespace
}  // namespace nd::provider::networkdirect
