// SPDX-License-Identifier: Apache-2.0
// The scenarios of the data path: sent data arrives, failures have their status, canceled requests complete.
#include <cstring>

#include "tests/vm/proof.h"

namespace nd::vm {
namespace {

void Fill(const Side& side, std::size_t offset, std::size_t size, unsigned seed) {
  for (std::size_t i = 0; i < size; ++i) side.at(offset)[i] = static_cast<std::byte>(i * 13 + seed);
}

bool Same(const Side& a, std::size_t at_a, const Side& b, std::size_t at_b, std::size_t size) {
  return std::memcmp(a.at(at_a), b.at(at_b), size) == 0;
}

void* Tag(int value) {
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(value));
}

// Checks that the next completion is this one.
void Expect(Case& c, const Side& side, RequestType type, int tag, StatusCode status, std::uint32_t bytes,
            int line) {
  const auto got = side.Next();
  c.Check(got.has_value(), "a completion arrives", line);
  if (!got) return;
  c.Check(got->type == type, "its type", line);
  c.Check(got->request_context == Tag(tag), "its context", line);
  c.Check(got->status == status, std::string("its status: ").append(Name(got->status)).c_str(), line);
  if (status == StatusCode::kSuccess) c.Check(got->bytes_transferred == bytes, "its length", line);
}
#define ND_EXPECT(c, side, type, tag, status, bytes) \
  Expect(c, side, RequestType::type, tag, StatusCode::status, bytes, __LINE__)

}  // namespace

void DataScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Pair pair = ConnectPair(world, adapter, c);
  if (!pair.up) return;
  const Side &a = pair.active, &p = pair.passive;
  // Send into the first posted receive, gathered from two pieces.
  Fill(a, 0, 1000, 3);
  const Sge two[] = {a.sge(0, 400), a.sge(400, 600)};
  ND_CHECK(c, a.qp->Send(Tag(1), two, kOpSendAndSolicit).ok());
  ND_EXPECT(c, a, kSend, 1, kSuccess, 1000);
  ND_EXPECT(c, p, kReceive, 100, kSuccess, 1000);
  ND_CHECK(c, Same(a, 0, p, 32768, 1000));
  // Inline: the memory may change at once.
  Fill(a, 2000, 16, 9);
  Fill(p, 60000, 16, 9);
  const Sge small = a.sge(2000, 16);
  ND_CHECK(c, a.qp->Send(Tag(2), {&small, 1}, kOpInline).ok());
  std::memset(a.at(2000), 0, 16);
  ND_EXPECT(c, a, kSend, 2, kSuccess, 16);
  ND_EXPECT(c, p, kReceive, 101, kSuccess, 16);
  ND_CHECK(c, Same(p, 32768 + 1024, p, 60000, 16));
  // Write and Read, both directions of the limits.
  Fill(a, 4096, 8192, 21);
  const Sge big = a.sge(4096, 8192);
  ND_CHECK(c, a.qp->Write(Tag(3), {&big, 1}, p.address(4096), p.region->remote_token(), 0).ok());
  ND_EXPECT(c, a, kWrite, 3, kSuccess, 8192);
  const Sge back = a.sge(16384, 8192);
  const Status read = a.qp->Read(Tag(4), {&back, 1}, p.address(4096), p.region->remote_token(), kOpReadFence);
  c.Check(read.ok(), read.ToString().c_str(), __LINE__);
  ND_EXPECT(c, a, kRead, 4, kSuccess, 8192);
  ND_CHECK(c, Same(a, 4096, a, 16384, 8192));
  const Sge mine = p.sge(20000, 4000);
  ND_CHECK(c, p.qp->Read(Tag(5), {&mine, 1}, a.address(4096), a.region->remote_token(), 0).ok());
  ND_EXPECT(c, p, kRead, 5, kSuccess, 4000);
  ND_CHECK(c, Same(a, 4096, p, 20000, 4000));
  // Many more silent requests than the depth of the queue: they neither complete nor block.
  for (int i = 0; i < 500; ++i) {
    Status status;
    do {
      status = a.qp->Write(Tag(6), {&small, 1}, p.address(0), p.region->remote_token(), kOpSilentSuccess);
      Completion none;
      if (status == StatusCode::kNoMoreEntries) ND_CHECK(c, a.cq->Poll({&none, 1}) == 0);
    } while (status == StatusCode::kNoMoreEntries);
    if (!status.ok()) {
      c.Check(false, status.ToString().c_str(), __LINE__);
      break;
    }
  }
  ND_CHECK(c, a.qp->Write(Tag(7), {&small, 1}, p.address(0), p.region->remote_token(), 0).ok());
  ND_EXPECT(c, a, kWrite, 7, kSuccess, 16);
  // The handle is not readable before a completion and readable after it.
  ND_CHECK(c, p.cq->Notify(NotifyType::kAny).ok());
  ND_CHECK(c, a.qp->Send(Tag(8), {&small, 1}, 0).ok());
  ND_EXPECT(c, p, kReceive, 102, kSuccess, 16);
  p.cq->ConsumeNotification();
  ND_EXPECT(c, a, kSend, 8, kSuccess, 16);
  EndPair(world, c, pair);
}

void SharedReceiveScenario(World& world, const AdapterInfo& adapter, Case& c) {
  const Side side = world.MakeSide(adapter);
  auto srq = side.device->CreateSharedReceiveQueue(16, 2);
  ND_CHECK(c, srq.ok());
  if (!srq.ok()) return;
  for (int i = 0; i < 16; ++i) {
    const Sge sge = side.sge(0, 64);
    ND_CHECK(c, (*srq)->Receive(Tag(i), {&sge, 1}).ok());
  }
  const Sge one = side.sge(0, 64);
  ND_CHECK(c, (*srq)->Receive(Tag(99), {&one, 1}) == StatusCode::kNoMoreEntries);
  provider::QpOptions options;
  options.receive_cq = options.initiator_cq = side.cq;
  options.srq = *srq;
  options.initiator_depth = 4;
  options.max_initiator_sge = 1;
  auto queue_pair = side.device->CreateQueuePair(options);
  ND_CHECK(c, queue_pair.ok());
  if (queue_pair.ok()) {
    ND_CHECK(c, (*queue_pair)->Receive(Tag(1), {&one, 1}) == StatusCode::kInvalidDeviceRequest);
  }
}

void WindowScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Pair pair = ConnectPair(world, adapter, c);
  if (!pair.up) return;
  const Side &a = pair.active, &p = pair.passive;
  auto window = p.device->CreateWindow();
  if (adapter.max_window_size == 0) {
    ND_CHECK(c, window.status() == StatusCode::kNotSupported);
    return EndPair(world, c, pair);
  }
  ND_CHECK(c, window.ok());
  if (!window.ok()) return;
  ND_CHECK(c,
           p.qp->BindWindow(Tag(1), *p.region, **window, p.at(1000), 500, kOpAllowWrite | kOpAllowRead).ok());
  ND_EXPECT(c, p, kBind, 1, kSuccess, 0);
  ND_CHECK(c, p.region->Deregister() == StatusCode::kDeviceBusy);
  Fill(a, 0, 500, 77);
  const Sge sge = a.sge(0, 500);
  ND_CHECK(c, a.qp->Write(Tag(2), {&sge, 1}, p.address(1000), (*window)->remote_token(), 0).ok());
  ND_EXPECT(c, a, kWrite, 2, kSuccess, 500);
  ND_CHECK(c, Same(a, 0, p, 1000, 500));
  ND_CHECK(c, p.qp->Invalidate(Tag(3), **window, 0).ok());
  ND_EXPECT(c, p, kInvalidate, 3, kSuccess, 0);
  ND_CHECK(c, a.qp->Write(Tag(4), {&sge, 1}, p.address(1000), (*window)->remote_token(), 0).ok());
  ND_EXPECT(c, a, kWrite, 4, kAccessViolation, 0);
  EndPair(world, c, pair);
}

void ErrorScenario(World& world, const AdapterInfo& adapter, Case& c) {
  Pair pair = ConnectPair(world, adapter, c);
  if (!pair.up) return;
  const Side &a = pair.active, &p = pair.passive;
  const Sge sge = a.sge(0, 64);
  ND_CHECK(c, a.qp->Read(Tag(1), {&sge, 1}, p.address(0), p.region->remote_token() ^ 0x55, 0).ok());
  const auto got = a.Next();
  ND_CHECK(c, got.has_value());
  if (got) {
    // On iWARP the request may fail only when the connection ends.
    ND_CHECK(c, got->status == StatusCode::kAccessViolation ||
                    (adapter.technology == RdmaTechnology::kIwarp && got->status != StatusCode::kSuccess));
  }
  // Receives of the other side end with the connection, at the latest when it is flushed.
  ND_CHECK(c, p.qp->Flush().ok());
  for (int i = 0; i < 8; ++i) ND_EXPECT(c, p, kReceive, 100 + i, kCanceled, 0);
  pair.active.qp->Drop();
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    cm.Abort(pair.active_id);
    cm.Abort(pair.passive_id);
  });
  ReleaseEndpoints(world, pair);
}

void FlushScenario(World& world, const AdapterInfo& adapter, Case& c) {
  const Side lone = world.MakeSide(adapter);
  for (int i = 0; i < 5; ++i) {
    const Sge sge = lone.sge(0, 64);
    ND_CHECK(c, lone.qp->Receive(Tag(i), {&sge, 1}).ok());
  }
  ND_CHECK(c, lone.qp->Flush().ok());
  for (int i = 0; i < 5; ++i) ND_EXPECT(c, lone, kReceive, i, kCanceled, 0);
  const Sge again = lone.sge(0, 64);
  ND_CHECK(c, lone.qp->Receive(Tag(50), {&again, 1}).ok());
  ND_CHECK(c, lone.qp->Flush().ok());
  ND_EXPECT(c, lone, kReceive, 50, kCanceled, 0);
  ND_CHECK(c, lone.qp->Send(Tag(1), {&again, 1}, 0) == StatusCode::kConnectionInvalid);

  Pair pair = ConnectPair(world, adapter, c);
  if (!pair.up) return;
  ND_CHECK(c, pair.passive.qp->Flush().ok());
  for (int i = 0; i < 8; ++i) ND_EXPECT(c, pair.passive, kReceive, 100 + i, kCanceled, 0);
  pair.active.qp->Drop();
  world.OnLoop([&](provider::verbs::VerbsCm& cm) {
    cm.Abort(pair.active_id);
    cm.Abort(pair.passive_id);
  });
  ReleaseEndpoints(world, pair);
}

}  // namespace nd::vm
