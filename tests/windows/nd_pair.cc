// SPDX-License-Identifier: Apache-2.0
// Two processes on the public interface of the library, each with the broker of its host: they connect,
// exchange Sends with stamps in both directions, write into the memory of each other and read it back. Each
// checks every byte. The same program runs on Linux and on Windows.
//
// usage: nd_pair listen|connect ADDRESS:PORT [ROUNDS]      a round is 16 Sends of each end
//        nd_pair reject|rejected ADDRESS:PORT              one end rejects the request of the other, with
//        data
// NDBROKER_PAIR_BROKER=DIRECTORY and NDBROKER_PAIR_ADAPTER=NAME choose a broker and an adapter.
// With NDBROKER_PAIR_PACE=MS an end pauses after each round, and it writes the number of each tenth round.
// Exit 0: all data was right, and both ends said goodbye. 3: the peer has gone, and this end was told.
#include <nd/nd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/windows/stamp.h"

namespace {

using nd::stamped::Card, nd::stamped::kAnswer, nd::stamped::kArea, nd::stamped::kBatch, nd::stamped::kCards,
    nd::stamped::kHello, nd::stamped::kLongest, nd::stamped::LengthOf, nd::stamped::Stamp;

constexpr std::chrono::seconds kPatience{60};

std::atomic<bool> peer_left = false;
std::atomic<nd::DisconnectReason> reason_of_peer{};

// The exit code tells a mistake from the end of the peer.
[[noreturn]] void Fail(const std::string& what) {
  if (peer_left) {
    const std::string reason(nd::Name(reason_of_peer.load()));
    std::printf("told that the peer has gone: %s\n", reason.c_str());
  }
  std::fprintf(stderr, "nd_pair: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(peer_left ? 3 : 1);
}

std::chrono::milliseconds Pace() {
  const char* const text = std::getenv("NDBROKER_PAIR_PACE");
  return std::chrono::milliseconds(text == nullptr ? 0 : std::strtol(text, nullptr, 10));
}
std::string Chosen(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? "" : text;
}
void Need(const nd::Status& status, const char* doing) {
  if (!status.ok()) Fail(std::string(doing) + ": " + status.ToString());
}
template <typename T>
T Need(nd::Result<T> result, const char* doing) {
  Need(result.status(), doing);
  return std::move(result).value();
}

class End {
 public:
  End(nd::Adapter& adapter, unsigned me, std::size_t rounds)
      : rounds_(rounds),
        messages_(rounds * kBatch),
        me_(me),
        peer_(3 - me),
        queue_(Need(adapter.CreateCompletionQueue(1024), "CreateCompletionQueue")),
        in_(adapter, 2 * kBatch * kLongest),
        out_(adapter, kBatch * kLongest),
        area_(adapter, kArea),
        copy_(adapter, kArea),
        pair_(Need(adapter.CreateQueuePair({.receive_cq = &queue_, .initiator_cq = &queue_}),
                   "CreateQueuePair")) {
    // An adapter that cannot be told has a patience of its own.
    const nd::Status patient = pair_.SetReceivePatience(kPatience);
    if (!(patient == nd::StatusCode::kNotSupported)) Need(patient, "SetReceivePatience");
    for (std::size_t i = 0; i < 2 * kBatch; ++i) PostReceive(i);
  }

  nd::QueuePair& pair() { return pair_; }

  void Exchange() {
    const std::chrono::milliseconds pace = Pace();
    for (std::size_t round = 0; round < rounds_; ++round) {
      Round(round);
      if (pace == pace.zero()) continue;
      if (round % 10 == 0) std::printf("round %zu\n", round);
      std::fflush(stdout);
      std::this_thread::sleep_for(pace);
    }
    Meet();
    const Card theirs = theirs_;
    for (std::size_t i = 0; i < kArea; ++i) copy_.data()[i] = Stamp(me_, 0, i);
    const nd::Sge all = copy_.Piece(0, kArea);
    Need(pair_.Write(nullptr, {&all, 1}, theirs.address, theirs.token), "Write");
    AwaitRequests(1);
    Meet();  // Both Writes have arrived.
    Check(area_, peer_, "the Write of the peer");
    std::memset(copy_.data(), 0, kArea);
    Need(pair_.Read(nullptr, {&all, 1}, theirs.address, theirs.token), "Read");
    AwaitRequests(1);
    Check(copy_, me_, "the Read");
    Meet();  // Both Reads are done.
  }

 private:
  struct Memory {
    Memory(nd::Adapter& adapter, std::size_t size)
        : buffer(Need(adapter.AllocateBuffer(size), "AllocateBuffer")),
          region(Need(adapter.Register(buffer, nd::kAllowLocalWrite | nd::kAllowRemoteRead |
                                                   nd::kAllowRemoteWrite | nd::kRdmaReadSink),
                      "Register")) {}
    std::byte* data() const { return buffer.data(); }
    nd::Sge Piece(std::size_t offset, std::size_t size) {
      return region.Slice(data() + offset, static_cast<std::uint32_t>(size));
    }
    nd::Buffer buffer;
    nd::MemoryRegion region;
  };

  static void Check(const Memory& memory, unsigned sender, const char* what) {
    for (std::size_t i = 0; i < kArea; ++i) {
      if (memory.data()[i] != Stamp(sender, 0, i))
        Fail(std::string(what) + " differs at byte " + std::to_string(i));
    }
  }
  void PostReceive(std::size_t message) {
    const nd::Sge piece = in_.Piece(message % (2 * kBatch) * kLongest, kLongest);
    Need(pair_.Receive(reinterpret_cast<void*>(message), {&piece, 1}), "Receive");
  }
  // What the peer sent before it left is in the queue.
  nd::Completion Next() {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const bool left = peer_left, late = std::chrono::steady_clock::now() > give_up;
      const nd::Result<nd::Completion> next = queue_.Next(std::chrono::milliseconds(100));
      if (next.ok() || left || late) return Need(next, "no completion");
    }
  }
  void Take() {
    const nd::Completion done = Next();
    if (done.status != nd::StatusCode::kSuccess) {
      for (int i = 0; i < 100 && !peer_left; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    Need(nd::Status(done.status), "a request failed");
    if (done.type != nd::RequestType::kReceive) {
      ++finished_;
      return;
    }
    const auto message = reinterpret_cast<std::uintptr_t>(done.request_context);
    if (message != received_++) Fail("a message came out of order");
    const std::byte* data = in_.data() + message % (2 * kBatch) * kLongest;
    if (message >= messages_) {
      if (done.bytes_transferred != sizeof(Card)) Fail("a card has another length");
      std::memcpy(&theirs_, data, sizeof theirs_);
      return;
    }
    if (done.bytes_transferred != LengthOf(message)) Fail("a message has another length");
    for (std::size_t at = 0; at < done.bytes_transferred; ++at) {
      if (data[at] != Stamp(peer_, message, at)) Fail("a message has another content");
    }
    if (message + 2 * kBatch < messages_ + kCards) PostReceive(message + 2 * kBatch);
  }
  void AwaitRequests(std::size_t more) {
    posted_ += more;
    while (finished_ != posted_) Take();
  }
  // At most one round is between the ends, so that two batches of receives suffice.
  void Round(std::size_t round) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::size_t message = round * kBatch + i, size = LengthOf(message);
      const nd::Sge piece = out_.Piece(i * kLongest, size);
      for (std::size_t at = 0; at < size; ++at) out_.data()[i * kLongest + at] = Stamp(me_, message, at);
      Need(pair_.Send(nullptr, {&piece, 1}), "Send");
    }
    AwaitRequests(kBatch);
    while (received_ < (round + 1) * kBatch) Take();
  }
  // Returns when both ends are here.
  void Meet() {
    const Card card{reinterpret_cast<std::uintptr_t>(area_.data()), area_.region.remote_token()};
    std::memcpy(out_.data(), &card, sizeof card);
    const nd::Sge piece = out_.Piece(0, sizeof card);
    Need(pair_.Send(nullptr, {&piece, 1}), "Send");
    AwaitRequests(1);
    ++met_;
    while (received_ < messages_ + met_) Take();
  }

  const std::size_t rounds_, messages_;
  const unsigned me_, peer_;
  nd::CompletionQueue queue_;
  Memory in_, out_, area_, copy_;
  std::size_t received_ = 0, posted_ = 0, finished_ = 0, met_ = 0;
  Card theirs_{};
  nd::QueuePair pair_;
};

constexpr char kNo[] = "not today";

void CheckData(const nd::Connector& connector, std::span<const char> wanted) {
  const std::vector<std::byte> data = Need(connector.GetPrivateData(), "GetPrivateData");
  if (!std::ranges::equal(data, std::as_bytes(wanted))) Fail("the private data differs");
}

void Reject(nd::Listener& listener, nd::Connector& connector) {
  Need(listener.GetConnectionRequest(connector), "GetConnectionRequest");
  Need(connector.Reject(std::as_bytes(std::span(kNo))), "Reject");
}

void BeRejected(nd::Connector& connector, nd::QueuePair& pair, const nd::Address& address) {
  const nd::Status refused = connector.Connect(pair, address);
  if (!(refused == nd::StatusCode::kConnectionRefused)) Fail("Connect answered " + refused.ToString());
  CheckData(connector, kNo);
  std::printf("refused, with the data of the peer\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc == 3 || argc == 4 ? argv[1] : "";
  const long rounds = argc == 4 ? std::strtol(argv[3], nullptr, 10) : 32;
  const bool listens = command == "listen" || command == "reject", rejects = command.starts_with("reject");
  if ((!listens && command != "connect" && command != "rejected") || rounds < 2) {
    std::fprintf(stderr, "usage: nd_pair listen|connect|reject|rejected ADDRESS:PORT [ROUNDS]\n");
    return 2;
  }
  const nd::Address address = Need(nd::Address::Parse(argv[2]), "the address");
  nd::Adapter adapter = Need(nd::Adapter::Open({.broker = Chosen("NDBROKER_PAIR_BROKER"),
                                                .adapter = Chosen("NDBROKER_PAIR_ADAPTER"),
                                                .application = "nd_pair"}),
                             "Open");
  nd::Connector connector = Need(adapter.CreateConnector(), "CreateConnector");
  End end(adapter, listens ? 2 : 1, static_cast<std::size_t>(rounds));
  connector.SetDisconnectCallback([](nd::DisconnectReason reason) {
    reason_of_peer = reason;
    peer_left = true;
  });
  if (listens) {
    nd::Listener listener = Need(adapter.CreateListener(), "CreateListener");
    Need(listener.Bind(address), "Bind");
    Need(listener.Listen(), "Listen");
    std::printf("waiting\n");
    std::fflush(stdout);
    if (rejects) return Reject(listener, connector), 0;
    Need(listener.GetConnectionRequest(connector), "GetConnectionRequest");
    CheckData(connector, kHello);
    Need(connector.Accept(end.pair(), {.private_data = std::as_bytes(std::span(kAnswer))}), "Accept");
  } else {
    Need(connector.Bind(Need(adapter.ResolveAddress(address), "ResolveAddress")), "Bind");
    if (rejects) return BeRejected(connector, end.pair(), address), 0;
    Need(connector.Connect(end.pair(), address, {.private_data = std::as_bytes(std::span(kHello))}),
         "Connect");
    CheckData(connector, kAnswer);
    Need(connector.CompleteConnect(), "CompleteConnect");
  }
  end.Exchange();
  Need(connector.Disconnect(), "Disconnect");
  std::printf("%ld messages, %zu bytes written and read: right\n", rounds * static_cast<long>(kBatch), kArea);
  return 0;
}
