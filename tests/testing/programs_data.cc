// SPDX-License-Identifier: Apache-2.0
// Programs that behave like ndping, ndpingpong, ndrping, ndrpingpong and ndmrrate: the server accepts with
// (MaxInbound, 0), the client connects with (0, depth) and a credit count of 4 bytes as private data; an
// empty message ends the program.
#include <cstring>

#include "tests/testing/process.h"
#include "tests/testing/programs_common.h"
#include "tests/testing/programs_os.h"

namespace nd::testing {
namespace {

constexpr std::uint32_t kCredits = 8;
constexpr std::size_t kLargest = 4 << 20;

struct Advertisement {
  std::uint64_t address = 0;
  std::uint32_t token = 0;
  std::uint32_t credits = kCredits;
};

bool Good(const Completion& completion) {
  return completion.status == StatusCode::kSuccess;
}

}  // namespace

std::string RateServer(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  const bool notified = arguments.Number("notified") != 0;
  Listener listener = adapter.CreateListener().value();
  if (!listener.Bind(arguments.At()).ok() || !listener.Listen().ok()) return "cannot listen";
  Connector connector = adapter.CreateConnector().value();
  if (Status s = listener.GetConnectionRequest(connector); !s.ok()) return s.ToString();
  const std::vector<std::byte> data = connector.GetPrivateData().value();
  std::uint32_t credits = 0;
  if (data.size() != sizeof(credits)) return "4 bytes of private data expected";
  std::memcpy(&credits, data.data(), sizeof(credits));
  if (credits != kCredits) return "wrong credits";
  End end(adapter, kLargest + 4096, 2 * kCredits);
  // The message area is shared by all receives; only the tail area is read.
  const Sge whole = end.Piece(0, kLargest);
  for (std::uint32_t i = 0; i < kCredits; ++i) (void)end.qp.Receive(nullptr, std::span(&whole, 1));
  const Advertisement mine{reinterpret_cast<std::uint64_t>(end.buffer.data()), end.region.remote_token(),
                           kCredits};
  ConnectOptions options;
  options.limits = {adapter.info().max_inbound_read_limit, 0};
  options.private_data = std::as_bytes(std::span(&mine, 1));
  if (Status s = connector.Accept(end.qp, options); !s.ok()) return "Accept: " + s.ToString();
  int messages = 0;
  for (;;) {
    const Completion got = NextOf(end, RequestType::kReceive, notified);
    if (!Good(got)) return "Receive: " + std::string(Name(got.status));
    if (got.bytes_transferred == 0) break;
    ++messages;
    const Sge echo = end.Piece(0, got.bytes_transferred);
    if (Status s = end.qp.Send(nullptr, std::span(&echo, 1)); !s.ok()) return "Send: " + s.ToString();
    if (const Completion c = NextOf(end, RequestType::kSend, notified); !Good(c)) {
      return "Send: " + std::string(Name(c.status));
    }
    if (Status s = end.qp.Receive(nullptr, std::span(&whole, 1)); !s.ok()) return "Receive: " + s.ToString();
  }
  if (Status s = connector.NotifyDisconnect(); !s.ok()) return "NotifyDisconnect: " + s.ToString();
  if (Status s = connector.Disconnect(); !s.ok()) return "Disconnect: " + s.ToString();
  (void)connector.Close();
  return "ok messages=" + std::to_string(messages);
}

std::string RateClient(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  const bool notified = arguments.Number("notified") != 0;
  const int rounds = arguments.Number("rounds", 20);
  End end(adapter, kLargest + 4096, 2 * kCredits);
  Connector connector = adapter.CreateConnector().value();
  const std::uint32_t credits = kCredits;
  ConnectOptions options;
  options.limits = {0, 16};
  options.private_data = std::as_bytes(std::span(&credits, 1));
  for (;;) {  // There may be no listener yet.
    const Status status = connector.NdkConnect(end.qp, arguments.At("from"), arguments.At(), options);
    if (status.ok()) break;
    if (!(status == StatusCode::kConnectionRefused)) return "Connect: " + status.ToString();
  }
  std::uint32_t outbound = 0;
  (void)connector.GetReadLimits(nullptr, &outbound);
  if (outbound == 0) return "no reads were granted";
  Advertisement peer;
  const std::vector<std::byte> data = connector.GetPrivateData().value();
  if (data.size() != sizeof(peer)) return "advertisement expected";
  std::memcpy(&peer, data.data(), sizeof(peer));
  if (Status s = connector.CompleteConnect(); !s.ok()) return "CompleteConnect: " + s.ToString();
  int messages = 0;
  const auto fail = [](const char* what, const Status& s) { return std::string(what) + ": " + s.ToString(); };
  for (std::size_t size = 1; size <= kLargest; size *= 4) {
    const Sge sge = end.Piece(0, size);
    const int times = size > (1 << 18) ? 3 : rounds;
    for (int i = 0; i < times; ++i) {
      std::memset(end.buffer.data(), i + 1, size);
      // Ping-pong by messages.
      if (Status s = end.qp.Receive(nullptr, std::span(&sge, 1)); !s.ok()) return fail("Receive", s);
      if (Status s = end.qp.Send(nullptr, std::span(&sge, 1)); !s.ok()) return fail("Send", s);
      const Completion echo = NextOf(end, RequestType::kReceive, notified);
      if (!Good(echo) || echo.bytes_transferred != size) return fail("echo", Status(echo.status));
      ++messages;
      // Writes to the peer and reads the bytes back.
      std::memset(end.buffer.data(), i + 77, size);
      if (Status s = end.qp.Write(nullptr, std::span(&sge, 1), peer.address, peer.token); !s.ok()) {
        return fail("Write", s);
      }
      if (const Completion c = NextOf(end, RequestType::kWrite, notified); !Good(c)) {
        return fail("Write", Status(c.status));
      }
      std::memset(end.buffer.data(), 0, size);
      if (Status s = end.qp.Read(nullptr, std::span(&sge, 1), peer.address, peer.token); !s.ok()) {
        return fail("Read", s);
      }
      if (const Completion c = NextOf(end, RequestType::kRead, notified); !Good(c)) {
        return fail("Read", Status(c.status));
      }
      for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
        if (end.buffer.data()[at] != static_cast<std::byte>(i + 77)) return "Read returned other bytes";
      }
    }
  }
  if (Status s = end.qp.Send(nullptr, {}); !s.ok()) return fail("final Send", s);
  if (const Completion c = NextOf(end, RequestType::kSend, notified); !Good(c)) {
    return fail("final Send", Status(c.status));
  }
  if (Status s = connector.Disconnect(); !s.ok()) return fail("Disconnect", s);
  (void)connector.Close();
  return "ok messages=" + std::to_string(messages);
}

std::string RegistrationLoop(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  const auto end_time =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(arguments.Number("milliseconds"));
  std::vector<std::byte> heap(1 << 20);
  const std::size_t before = CountDescriptors(OwnProcess());
  std::uint64_t rounds = 0;
  while (std::chrono::steady_clock::now() < end_time) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, heap.size()}) {
      Result<MemoryRegion> region = adapter.Register(heap.data(), size, kAllowLocalWrite | kAllowRemoteRead);
      if (!region.ok()) return "Register: " + region.status().ToString();
      if (Status s = region->Deregister(); !s.ok()) return "Deregister: " + s.ToString();
    }
    Result<Buffer> buffer = adapter.AllocateBuffer(8192);
    if (!buffer.ok()) return "AllocateBuffer: " + buffer.status().ToString();
    Result<MemoryRegion> region = adapter.Register(*buffer, kAllowLocalWrite);
    if (!region.ok()) return "Register: " + region.status().ToString();
    ++rounds;
  }
  if (!Eventually([&] { return CountDescriptors(OwnProcess()) <= before; }))
    return "descriptors grew from " + std::to_string(before) + " to " +
           std::to_string(CountDescriptors(OwnProcess()));
  return "ok rounds=" + std::to_string(rounds);
}

}  // namespace nd::testing
