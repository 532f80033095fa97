// SPDX-License-Identifier: Apache-2.0
// Regions that change, domains, rights of queue pairs, windows of verbs, limits of shared receive queues.
#include <atomic>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

constexpr std::uint32_t kAll = kAllowRemoteRead | kAllowRemoteWrite | kAllowRemoteAtomic | kRdmaReadSink;

Protection OfDomain(std::uint32_t domain) {
  return {.domain = domain, .receive_domain = domain};
}

class ProtectionTest : public QpTest {
 protected:
  Completion WriteTo(const Memory& mine, std::uint64_t address, std::uint32_t token) {
    const Sge from = mine.At(0, 64);
    EXPECT_TRUE(a->qp->Write(Tag(1), {&from, 1}, address, token, 0).ok());
    return a->Next();
  }
  Completion Bind(MemoryRegion* region, MemoryWindow& window, const WindowBinding& binding) {
    EXPECT_TRUE(b->qp->BindVerbsWindow(Tag(2), region, window, binding, 0).ok());
    return b->Next();
  }
};

INSTANTIATE_TEST_SUITE_P(Links, ProtectionTest,
                         ::testing::Values(Case{Link::kShared, true}, Case{Link::kShared, false},
                                           Case{Link::kIwarp, false}),
                         [](const auto& test) {
                           return std::string(NameOf(test.param.link)) +
                                  (test.param.shared_memory ? "SharedMemory" : "");
                         });

TEST_P(ProtectionTest, ARegionChangesUnderItsTokens) {
  Connect();
  Memory mine = Mem(*a, 64), first = Mem(*b, 64), second = Mem(*b, 4096);
  mine.Fill(3);
  const std::uint32_t token = first.token();
  EXPECT_EQ(WriteTo(mine, first.Address(), token).status, StatusCode::kSuccess);
  ASSERT_TRUE(first.region->Change(second.data, 4096, kAllowRemoteWrite, {}).ok());
  EXPECT_EQ(first.token(), token);
  EXPECT_EQ(WriteTo(mine, second.Address(1024), token).status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine.data, second.data + 1024, 64), 0);
  // A mistake changes nothing.
  EXPECT_EQ(first.region->Change(nullptr, 64, kAll, {}).code(), StatusCode::kInvalidParameter);
  EXPECT_EQ(first.region->Change(second.data, 64, 1u << 30, {}).code(), StatusCode::kInvalidParameter);
  EXPECT_EQ(WriteTo(mine, second.Address(2048), token).status, StatusCode::kSuccess);
  EXPECT_EQ(WriteTo(mine, first.Address(), token).status, StatusCode::kAccessViolation);
}

TEST_P(ProtectionTest, AnEmptyWriteNeedsNoRegion) {
  Connect();
  for (const std::uint32_t token : {0u, 0x12345u}) {
    ASSERT_TRUE(a->qp->Write(Tag(1), {}, 0, token, 0).ok());
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess) << token;
    ASSERT_TRUE(a->qp->Read(Tag(1), {}, 0, token, 0).ok());
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess) << token;
  }
}

TEST_P(ProtectionTest, ARegionLosesARight) {
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64);
  EXPECT_EQ(WriteTo(mine, theirs.Address(), theirs.token()).status, StatusCode::kSuccess);
  ASSERT_TRUE(theirs.region->Change(theirs.data, 64, kAllowLocalWrite, {}).ok());
  EXPECT_EQ(WriteTo(mine, theirs.Address(), theirs.token()).status, StatusCode::kAccessViolation);
}

TEST_P(ProtectionTest, ABoundRegionDoesNotChange) {
  Connect();
  Memory theirs = Mem(*b, 64);
  auto window = b->device->CreateWindow().value();
  ASSERT_TRUE(b->qp->BindWindow(Tag(1), *theirs.region, *window, theirs.data, 64, kOpAllowRead).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(theirs.region->Change(theirs.data, 64, kAll, {}).code(), StatusCode::kDeviceBusy);
}

TEST_P(ProtectionTest, APeerNamesAnotherBase) {
  Connect();
  Memory mine = Mem(*a, 4096), theirs = Mem(*b, 4096);
  mine.Fill(5);
  constexpr std::uint64_t kBase = 0x10000;
  ASSERT_TRUE(theirs.region->Change(theirs.data, 4096, kAll, {.remote_base = kBase}).ok());
  EXPECT_EQ(WriteTo(mine, kBase + 128, theirs.token()).status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine.data, theirs.data + 128, 64), 0);
  const Sge back = mine.At(256, 64);
  ASSERT_TRUE(a->qp->Read(Tag(1), {&back, 1}, kBase + 128, theirs.token(), 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine.data, mine.data + 256, 64), 0);
  // Local requests name the memory.
  Memory sink = Mem(*a, 64);
  const Sge to = sink.At(0, 64), from = theirs.At(128, 64);
  ASSERT_TRUE(a->qp->Receive(Tag(1), {&to, 1}).ok());
  ASSERT_TRUE(b->qp->Send(Tag(2), {&from, 1}, 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine.data, sink.data, 64), 0);
  EXPECT_EQ(WriteTo(mine, theirs.Address(), theirs.token()).status, StatusCode::kAccessViolation);
}

TEST_P(ProtectionTest, APeerUsesRegionsOfTheDomainOnly) {
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64);
  ASSERT_TRUE(b->qp->SetProtection(OfDomain(7)).ok());
  ASSERT_TRUE(theirs.region->Change(theirs.data, 64, kAll, {.domain = 7}).ok());
  EXPECT_EQ(WriteTo(mine, theirs.Address(), theirs.token()).status, StatusCode::kSuccess);
  ASSERT_TRUE(theirs.region->Change(theirs.data, 64, kAll, {.domain = 8}).ok());
  EXPECT_EQ(WriteTo(mine, theirs.Address(), theirs.token()).status, StatusCode::kAccessViolation);
}

TEST_P(ProtectionTest, AReceiveUsesRegionsOfItsDomainOnly) {
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64);
  ASSERT_TRUE(b->qp->SetProtection({.domain = 7, .receive_domain = 9}).ok());
  const Sge from = mine.At(0, 64), to = theirs.At(0, 64);
  for (const std::uint32_t domain : {9u, 8u}) {
    ASSERT_TRUE(theirs.region->Change(theirs.data, 64, kAll, {.domain = domain}).ok());
    ASSERT_TRUE(b->qp->Receive(Tag(1), {&to, 1}).ok());
    ASSERT_TRUE(a->qp->Send(Tag(2), {&from, 1}, 0).ok());
    const Completion got = b->Next(), sent = a->Next();
    EXPECT_EQ(got.status, domain == 9 ? StatusCode::kSuccess : StatusCode::kAccessViolation);
    EXPECT_EQ(sent.status, domain == 9 ? StatusCode::kSuccess : StatusCode::kRemoteError);
  }
}

TEST_P(ProtectionTest, TheRightsOfAQueuePairLimitItsPeer) {
  for (const std::uint32_t right : {+kAllowRemoteRead, +kAllowRemoteWrite, +kAllowRemoteAtomic}) {
    for (const bool given : {true, false}) {
      Connect();
      Memory mine = Mem(*a, 64, kAll), theirs = Mem(*b, 64, kAll);
      Protection protection = OfDomain(1);
      protection.remote_access = given ? right : kAll & ~(right & ~kAllowLocalWrite);
      ASSERT_TRUE(b->qp->SetProtection(protection).ok());
      ASSERT_TRUE(theirs.region->Change(theirs.data, 64, kAll, {.domain = 1}).ok());
      const Sge piece = mine.At(0, 8);
      Status posted;
      if (right == kAllowRemoteRead) {
        posted = a->qp->Read(Tag(1), {&piece, 1}, theirs.Address(), theirs.token(), 0);
      } else if (right == kAllowRemoteWrite) {
        posted = a->qp->Write(Tag(1), {&piece, 1}, theirs.Address(), theirs.token(), 0);
      } else {
        posted = a->qp->FetchAdd(Tag(1), piece, theirs.Address(), theirs.token(), 1, 0);
      }
      ASSERT_TRUE(posted.ok());
      EXPECT_EQ(a->Next().status, given ? StatusCode::kSuccess : StatusCode::kAccessViolation)
          << right << given;
    }
  }
}

TEST_P(ProtectionTest, AWindowOfType2HasTheCallersBits) {
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 4096, kAllowLocalWrite);
  auto window = b->device->CreateVerbsWindow(WindowKind::kVerbsType2).value();
  const std::uint32_t token = (window->remote_token() & ~0xffu) | ((window->remote_token() + 1) & 0xff);
  const WindowBinding binding{theirs.Address(1024), 1024, kAllowRemoteWrite, token};
  EXPECT_EQ(Bind(theirs.region.get(), *window, binding).status, StatusCode::kSuccess);
  EXPECT_EQ(window->remote_token(), token);
  EXPECT_EQ(theirs.region->Deregister().code(), StatusCode::kDeviceBusy);
  EXPECT_EQ(WriteTo(mine, theirs.Address(1024), token).status, StatusCode::kSuccess);
  // The owner ends it, and binds it again with other bits.
  ASSERT_TRUE(b->qp->InvalidateToken(Tag(3), token, 0).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  const WindowBinding again{theirs.Address(), 64, kAllowRemoteWrite, token ^ 0x5a};
  EXPECT_EQ(Bind(theirs.region.get(), *window, again).status, StatusCode::kSuccess);
  EXPECT_EQ(WriteTo(mine, theirs.Address(), again.token).status, StatusCode::kSuccess);
  // The peer ends it.
  ASSERT_TRUE(b->qp->Receive(Tag(4), {}).ok());
  ASSERT_TRUE(a->qp->SendAndInvalidate(Tag(5), {}, 0, again.token).ok());
  const Completion told = b->Next();
  EXPECT_EQ(told.status, StatusCode::kSuccess);
  EXPECT_EQ(told.flags, kCompletionInvalidated);
  EXPECT_EQ(told.immediate, again.token);
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  EXPECT_TRUE(theirs.region->Deregister().ok());
  EXPECT_EQ(WriteTo(mine, theirs.Address(), again.token).status, StatusCode::kAccessViolation);
}

TEST_P(ProtectionTest, AWindowOfType2EndsWithItsHandle) {
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64);
  auto window = b->device->CreateVerbsWindow(WindowKind::kVerbsType2).value();
  const WindowBinding binding{theirs.Address(), 64, kAllowRemoteWrite, window->remote_token()};
  EXPECT_EQ(Bind(theirs.region.get(), *window, binding).status, StatusCode::kSuccess);
  window.reset();
  EXPECT_EQ(WriteTo(mine, theirs.Address(), binding.token).status, StatusCode::kAccessViolation);
  EXPECT_TRUE(theirs.region->Deregister().ok());
}

TEST_P(ProtectionTest, ABadBindFailsInItsTurn) {
  struct Bad {
    const char* why;
    std::uint64_t offset, length;
    std::uint32_t access, token_change, domain;
    bool twice;
  };
  constexpr Bad kBad[] = {
      {"outside", 60, 64, kAllowRemoteRead, 0, 1, false},
      {"empty", 0, 0, kAllowRemoteRead, 0, 1, false},
      {"token of another window", 0, 64, kAllowRemoteRead, 0x100, 1, false},
      {"no local write", 0, 64, kAllowRemoteWrite, 0, 1, false},
      {"other domain", 0, 64, kAllowRemoteRead, 0, 2, false},
      {"bound already", 0, 64, kAllowRemoteRead, 1, 1, true},
  };
  for (const Bad& bad : kBad) {
    Connect();
    ASSERT_TRUE(b->qp->SetProtection(OfDomain(1)).ok());
    Memory theirs = Mem(*b, 64);
    ASSERT_TRUE(theirs.region->Change(theirs.data, 64, 0, {.domain = bad.domain}).ok());
    auto window = b->device->CreateVerbsWindow(WindowKind::kVerbsType2).value();
    const std::uint32_t token = window->remote_token();
    if (bad.twice) {
      const WindowBinding good{theirs.Address(), 64, kAllowRemoteRead, token};
      EXPECT_EQ(Bind(theirs.region.get(), *window, good).status, StatusCode::kSuccess);
    }
    const WindowBinding binding{theirs.Address(bad.offset), bad.length, bad.access, token ^ bad.token_change};
    const Completion failed = Bind(theirs.region.get(), *window, binding);
    EXPECT_EQ(failed.status, StatusCode::kAccessViolation) << bad.why;
    EXPECT_EQ(failed.type, RequestType::kBind) << bad.why;
    EXPECT_TRUE(a->Until([&] { return a->closed == 1; })) << bad.why;
  }
}

TEST_P(ProtectionTest, AnUnknownTokenCannotBeInvalidated) {
  Connect();
  Memory theirs = Mem(*b, 64);
  ASSERT_TRUE(b->qp->InvalidateToken(Tag(1), theirs.token(), 0).ok());
  const Completion failed = b->Next();
  EXPECT_EQ(failed.status, StatusCode::kAccessViolation);
  EXPECT_EQ(failed.type, RequestType::kInvalidate);
  EXPECT_TRUE(b->device->Register(theirs.data, 64, 0).ok());
}

TEST_P(ProtectionTest, AWindowOfType1IsForEveryQueuePairOfItsDomain) {
  Connect();
  auto other = std::make_unique<End>();
  auto second = b->device->CreateQueuePair(b->Options()).value();
  HandOffs both = MakeHandOffs(GetParam().link);
  ASSERT_TRUE(other->qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(second->Attach(std::move(both.passive)).ok());
  Memory mine = Mem(*a, 64), others = Mem(*other, 64), theirs = Mem(*b, 64);
  ASSERT_TRUE(b->qp->SetProtection(OfDomain(1)).ok());
  ASSERT_TRUE(second->SetProtection(OfDomain(1)).ok());
  ASSERT_TRUE(theirs.region->Change(theirs.data, 64, kAll, {.domain = 1}).ok());
  auto window = b->device->CreateVerbsWindow(WindowKind::kVerbsType1).value();
  WindowBinding binding{theirs.Address(), 64, kAllowRemoteWrite, window->remote_token()};
  EXPECT_EQ(Bind(theirs.region.get(), *window, binding).status, StatusCode::kSuccess);
  // A second bind takes the place of the first.
  const std::uint32_t former = binding.token;
  binding.token ^= 1;
  EXPECT_EQ(Bind(theirs.region.get(), *window, binding).status, StatusCode::kSuccess);
  EXPECT_EQ(WriteTo(mine, theirs.Address(), binding.token).status, StatusCode::kSuccess);
  const Sge from = others.At(0, 64);
  ASSERT_TRUE(other->qp->Write(Tag(1), {&from, 1}, theirs.Address(), binding.token, 0).ok());
  EXPECT_EQ(other->Next().status, StatusCode::kSuccess);
  ASSERT_TRUE(other->qp->Write(Tag(1), {&from, 1}, theirs.Address(), former, 0).ok());
  EXPECT_EQ(other->Next().status, StatusCode::kAccessViolation);
  // A bind of length 0 ends it.
  EXPECT_EQ(Bind(nullptr, *window, {0, 0, 0, binding.token ^ 3}).status, StatusCode::kSuccess);
  EXPECT_EQ(WriteTo(mine, theirs.Address(), binding.token).status, StatusCode::kAccessViolation);
  second->Drop();
}

TEST_P(ProtectionTest, TheTokenOfAWindowIsNoLocalToken) {
  Connect();
  Memory theirs = Mem(*b, 64);
  auto window = b->device->CreateVerbsWindow(WindowKind::kVerbsType1).value();
  const WindowBinding binding{theirs.Address(), 64, kAllowRemoteWrite, window->remote_token()};
  EXPECT_EQ(Bind(theirs.region.get(), *window, binding).status, StatusCode::kSuccess);
  const Sge from{theirs.data, 64, binding.token};
  ASSERT_TRUE(b->qp->Send(Tag(1), {&from, 1}, 0).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kAccessViolation);
}

TEST_P(ProtectionTest, ASharedReceiveQueueTellsItsLimitOnce) {
  a = std::make_unique<End>();
  b = std::make_unique<End>();
  auto srq = b->device->CreateSharedReceiveQueue(16, 1).value();
  QpOptions options = b->Options();
  options.srq = srq;
  b->qp = b->device->CreateQueuePair(options).value();
  Join();
  auto told = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(srq->Receive(Tag(1), {}).ok());
  ASSERT_TRUE(srq->SetLimit(4, [told] { ++*told; }).ok());
  const auto send = [&] {
    ASSERT_TRUE(a->qp->Send(Tag(2), {}, 0).ok());
    EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  };
  send();
  send();
  EXPECT_EQ(*told, 0);
  send();
  EXPECT_TRUE(b->Until([&] { return *told == 1; }));
  send();
  EXPECT_EQ(*told, 1);
  // Armed again below the limit: the next receive that is taken tells it.
  ASSERT_TRUE(srq->SetLimit(4, [told] { *told += 10; }).ok());
  EXPECT_EQ(*told, 1);
  send();
  EXPECT_TRUE(b->Until([&] { return *told == 11; }));
  ASSERT_TRUE(srq->SetLimit(0, nullptr).ok());
  send();
  EXPECT_EQ(*told, 11);
}

TEST_P(ProtectionTest, ASharedReceiveQueueKeepsItsReceivesWhenItIsResized) {
  a = std::make_unique<End>();
  b = std::make_unique<End>();
  auto srq = b->device->CreateSharedReceiveQueue(2, 1).value();
  QpOptions options = b->Options();
  options.srq = srq;
  b->qp = b->device->CreateQueuePair(options).value();
  Join();
  const std::uint32_t max = TestAdapter().max_shared_receive_queue_depth;
  EXPECT_EQ(srq->Resize(0), StatusCode::kInvalidParameter1);
  EXPECT_EQ(srq->Resize(max + 1), StatusCode::kInvalidParameter1);
  for (std::uintptr_t i = 0; i < 2; ++i) ASSERT_TRUE(srq->Receive(Tag(i), {}).ok());
  EXPECT_EQ(srq->Receive(Tag(2), {}), StatusCode::kNoMoreEntries);
  EXPECT_EQ(srq->Resize(1), StatusCode::kBufferOverflow);
  ASSERT_TRUE(srq->Resize(3).ok());
  ASSERT_TRUE(srq->Receive(Tag(2), {}).ok());
  EXPECT_EQ(srq->Receive(Tag(3), {}), StatusCode::kNoMoreEntries);
  for (std::uintptr_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(a->qp->Send(Tag(9), {}, 0).ok());
    EXPECT_EQ(b->Next().request_context, Tag(i));
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  }
}

}  // namespace
}  // namespace nd::provider::soft
