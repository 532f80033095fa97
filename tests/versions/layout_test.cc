// SPDX-License-Identifier: Apache-2.0
// The sizes and offsets of what two processes of different versions share. When one of them changes, the
// program of the previous version misreads it: docs/versions.md says what has to be changed with it.
#include <gtest/gtest.h>

#include <cstddef>

#include "provider/counters.h"
#include "provider/halves_record.h"
#include "provider/hand_off.h"
#include "provider/regions.h"
#include "provider/sockets_record.h"
#include "provider/soft/segment.h"
#include "provider/soft/transports.h"
#include "provider/soft/wire/ndb_header.h"
#include "session/limits.h"

namespace nd::provider {
namespace {

TEST(Layout, RecordsOfTheLaneAreThoseOfVersion1) {
  ASSERT_EQ(HandOffRecord::kVersion, 1);
  EXPECT_EQ(sizeof(HandOffRecord), 80u);
  EXPECT_EQ(offsetof(HandOffRecord, id), 8u);
  EXPECT_EQ(offsetof(HandOffRecord, transport), 24u);
  EXPECT_EQ(offsetof(HandOffRecord, flags), 32u);
  EXPECT_EQ(offsetof(HandOffRecord, payload), 44u);
  EXPECT_EQ(offsetof(HandOffRecord, peer_uid), 72u);
  EXPECT_EQ(sizeof(soft::IwarpPayload), sizeof(HandOffRecord::payload));
  EXPECT_EQ(offsetof(soft::IwarpPayload, read_msn_in), 12u);
  EXPECT_EQ(offsetof(soft::IwarpPayload, max_ulpdu), 16u);
  EXPECT_EQ(sizeof(soft::SharedPayload), sizeof(HandOffRecord::payload));
  EXPECT_EQ(offsetof(soft::SharedPayload, segment_size), 20u);
  EXPECT_EQ(offsetof(HandOffRecord, peer_pid), 76u);
  EXPECT_EQ(kHandOffExtensions, 0x20u);
  EXPECT_EQ(sizeof(TokenRecord), 32u);
  EXPECT_EQ(offsetof(TokenRecord, features), 24u);
  EXPECT_EQ(sizeof(CountersPageRecord), 32u);
  EXPECT_EQ(sizeof(AckRecord), 16u);
  EXPECT_EQ(sizeof(MessageRecord), 8u);
  EXPECT_EQ(sizeof(SocketsRecord), 24u);
  EXPECT_EQ(offsetof(SocketsRecord, op_id), 8u);
  EXPECT_EQ(offsetof(SocketsRecord, fd_count), 16u);
  EXPECT_EQ(std::uint32_t{kLaneMessages}, 0x1u);
  EXPECT_EQ(kGiveSockets, 0x2u);
  EXPECT_EQ(sizeof(HalvesRecord), 16u);
  EXPECT_EQ(offsetof(HalvesRecord, transport), 8u);
  EXPECT_EQ(offsetof(HalvesRecord, length), 12u);
  EXPECT_EQ(kHalvesMessages, 0x10u);
}

TEST(Layout, SharedPagesAreThoseOfVersion1) {
  EXPECT_EQ(sizeof(QpCounters), 128u);
  EXPECT_EQ(sizeof(RegionRow), 64u);
  EXPECT_EQ(offsetof(RegionTable, used), 8u);
  EXPECT_EQ(offsetof(RegionTable, spares), 12u);
  EXPECT_EQ(offsetof(SpareWords, connectors), 16u);
  EXPECT_EQ(offsetof(RegionTable, rows), 64u);
  EXPECT_EQ(soft::kSegmentSize, 266240u);
}

TEST(Layout, TheHeaderOnTheWireIsThatOfVersion1) {
  ASSERT_EQ(soft::wire::kNdbVersion, 1);
  soft::wire::NdbHeader header;
  header.reason = Detail::kNoListener;
  header.flags = soft::wire::kNdbConfirmationReads;
  header.source_port = 0x1234;
  header.destination_port = 0x5678;
  std::byte bytes[soft::wire::kNdbHeaderSize];
  soft::wire::EncodeNdbHeader(header, bytes);
  const auto decoded = soft::wire::DecodeNdbHeader(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, header);
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(bytes[8], std::byte{0x12});
  EXPECT_EQ(bytes[11], std::byte{0x78});
  // A header of another version is refused.
  bytes[4] = std::byte{2};
  EXPECT_FALSE(soft::wire::DecodeNdbHeader(bytes));
}

TEST(Layout, TheSessionProtocolIsVersion1) {
  EXPECT_EQ(session::kProtocolVersion, 1u);
}

}  // namespace
}  // namespace nd::provider
