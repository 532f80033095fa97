// SPDX-License-Identifier: Apache-2.0
// A program of Network Direct: it exchanges data with stamps with a second one, or with nd_pair of any
// system (stamp.h has their protocol), through ndbrokernd.dll and a running broker. Each end checks every
// byte.
//
// usage: nd_exchange listen ADDRESS PORT [DLL]
//        nd_exchange connect OWN-ADDRESS ADDRESS PORT [DLL]
// Without a DLL the provider is found in the Winsock catalogue. NDBROKER_DIR: the broker. Exit 0: all data
// and every status was right.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/windows/nd_dll_win.h"
#include "tests/windows/stamp.h"

namespace nd::spi {
namespace {

using stamped::Card, stamped::kArea, stamped::kBatch, stamped::kCards, stamped::kLongest, stamped::LengthOf;

constexpr std::size_t kRounds = 32, kMessages = kRounds * kBatch;
// The parts of the memory: the area that the peer writes and reads, what this end writes and reads, messages
// that arrive, those that leave.
constexpr std::size_t kCopy = kArea, kIn = 2 * kArea, kSlots = 2 * kBatch, kOut = kIn + kSlots * kLongest,
                      kMemory = kOut + kBatch * kLongest;

void Require(bool good, const char* what, HRESULT hr = 0) {
  if (good) return;
  std::fprintf(stderr, "nd_exchange: %s (%08lx)\n", what, static_cast<unsigned long>(hr));
  std::exit(1);
}
void Need(HRESULT hr, const char* what) {
  Require(hr == 0, what, hr);
}

std::uint8_t ByteOf(unsigned sender, std::size_t message, std::size_t at) {
  return std::to_integer<std::uint8_t>(stamped::Stamp(sender, message, at));
}

class End {
 public:
  End(const sockaddr_in& own, const Dll& dll, unsigned me) : me_(me), peer_(3 - me) {
    event_ = ::CreateEventW(nullptr, FALSE, FALSE, nullptr);
    overlapped_.hEvent = event_;
    Need(OpenAdapter(dll, own, &adapter_), "no adapter");
    Need(adapter_->CreateOverlappedFile(&file_), "no overlapped file");
    Need(adapter_->CreateCompletionQueue(kIid<IND2CompletionQueue>, file_, 256, 0, 0, queue_.out()),
         "no queue");
    Need(adapter_->CreateConnector(kIid<IND2Connector>, file_, connector_.out()), "no connector");
    Need(adapter_->CreateQueuePair(kIid<IND2QueuePair>, queue_.get(), queue_.get(), this, kSlots + 1, kBatch,
                                   2, 2, 0, pair_.out()),
         "no queue pair");
    memory_.resize(kMemory);
    Need(adapter_->CreateMemoryRegion(kIid<IND2MemoryRegion>, file_, region_.out()), "no region");
    Need(Await(region_.get(), region_->Register(memory_.data(), memory_.size(), 0xF, &overlapped_),
               &overlapped_),
         "register");
    for (std::size_t message = 0; message < kSlots; ++message) PostReceive(message);
  }
  ~End() { ::CloseHandle(event_); }

  void Listen(const sockaddr_in& own) {
    Held<IND2Listener> listener;
    Need(adapter_->CreateListener(kIid<IND2Listener>, file_, listener.out()), "no listener");
    Need(listener->Bind(Generic(own), sizeof own), "bind");
    Need(listener->Listen(0), "listen");
    std::printf("waiting\n");
    std::fflush(stdout);
    Need(Await(listener.get(), listener->GetConnectionRequest(connector_.get(), &overlapped_), &overlapped_),
         "connection request");
    CheckData(stamped::kHello);
    ULONG inbound = 0, outbound = 0;
    Need(connector_->GetReadLimits(&inbound, &outbound), "read limits");
    Require(inbound != 0 && outbound != 0, "the read limits are 0");
    Need(Await(connector_.get(),
               connector_->Accept(pair_.get(), 4, 4, stamped::kAnswer, sizeof stamped::kAnswer, &overlapped_),
               &overlapped_),
         "accept");
  }

  void Connect(const sockaddr_in& own, const sockaddr_in& peer) {
    Need(connector_->Bind(Generic(own), sizeof own), "bind");
    Need(Await(connector_.get(),
               connector_->Connect(pair_.get(), Generic(peer), sizeof peer, 4, 4, stamped::kHello,
                                   sizeof stamped::kHello, &overlapped_),
               &overlapped_),
         "connect");
    CheckData(stamped::kAnswer);
    Need(Await(connector_.get(), connector_->CompleteConnect(&overlapped_), &overlapped_),
         "complete connect");
    sockaddr_in there{};
    ULONG length = sizeof there;
    Need(connector_->GetPeerAddress(reinterpret_cast<sockaddr*>(&there), &length), "peer address");
    Require(there.sin_port == peer.sin_port, "the address of the peer differs");
  }

  void Exchange() {
    for (std::size_t round = 0; round < kRounds; ++round) Round(round);
    // The peer has the area through a window.
    Held<IND2MemoryWindow> window;
    Need(adapter_->CreateMemoryWindow(kIid<IND2MemoryWindow>, window.out()), "no window");
    const auto bind = [&] {
      Need(pair_->Bind(nullptr, region_.get(), window.get(), memory_.data(), kArea, 0x18), "post a bind");
      AwaitRequests(1);
    };
    bind();
    Need(pair_->Invalidate(nullptr, window.get(), 0), "post an invalidate");
    AwaitRequests(1);
    bind();
    const Card mine{reinterpret_cast<std::uintptr_t>(memory_.data()), window->GetRemoteToken()};
    Meet(mine);
    const Card theirs = theirs_;
    for (std::size_t at = 0; at < kArea; ++at) memory_[kCopy + at] = ByteOf(me_, 0, at);
    const Sge all = Piece(kCopy, kArea);
    Need(pair_->Write(nullptr, &all, 1, theirs.address, theirs.token, 0), "post a write");
    AwaitRequests(1);
    Meet(mine);  // Both Writes have arrived.
    CheckArea(0, peer_);
    std::memset(memory_.data() + kCopy, 0, kArea);
    Need(pair_->Read(nullptr, &all, 1, theirs.address, theirs.token, 0), "post a read");
    AwaitRequests(1);
    CheckArea(kCopy, me_);
    PostReceive(0);  // Nothing comes for it.
    Meet(mine);      // Both Reads are done.
  }

  void Part(bool active) {
    if (active) {
      Need(Await(connector_.get(), connector_->Disconnect(&overlapped_), &overlapped_), "disconnect");
    } else {
      Need(Await(connector_.get(), connector_->NotifyDisconnect(&overlapped_), &overlapped_),
           "notice of the disconnect");
      Need(Await(connector_.get(), connector_->Disconnect(&overlapped_), &overlapped_), "disconnect");
    }
    RequestResult left{};  // The receive that nothing came for.
    while (queue_->GetResults(&left, 1) == 0) AwaitNotice();
    Require(left.status == static_cast<HRESULT>(StatusCode::kCanceled), "the receive was not flushed",
            left.status);
    Need(Await(region_.get(), region_->Deregister(&overlapped_), &overlapped_), "deregister");
    std::printf("%zu messages, %zu bytes written and read: right\n", kMessages, kArea);
  }

 private:
  Sge Piece(std::size_t offset, std::size_t size) {
    return {memory_.data() + offset, static_cast<std::uint32_t>(size), region_->GetLocalToken()};
  }
  void CheckData(std::string_view wanted) {
    char data[64] = {};
    ULONG length = 0;
    Require(connector_->GetPrivateData(nullptr, &length) == static_cast<HRESULT>(StatusCode::kBufferOverflow),
            "private data fits into nothing");
    length = sizeof data;
    Need(connector_->GetPrivateData(data, &length), "private data");
    Require(data == wanted, "the private data differs");
  }
  void PostReceive(std::size_t message) {
    const Sge in = Piece(kIn + message % kSlots * kLongest, kLongest);
    Need(pair_->Receive(nullptr, &in, 1), "post a receive");
  }
  // At most one round is between the ends, so that two batches of receives suffice.
  void Round(std::size_t round) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::size_t message = round * kBatch + i, size = LengthOf(message), at = kOut + i * kLongest;
      for (std::size_t byte = 0; byte < size; ++byte) memory_[at + byte] = ByteOf(me_, message, byte);
      const Sge halves[] = {Piece(at, size / 2), Piece(at + size / 2, size - size / 2)};
      Need(pair_->Send(nullptr, halves, 2, 0), "post a send");
    }
    AwaitRequests(kBatch);
    while (received_ < (round + 1) * kBatch) Take();
  }
  // Returns when both ends are here.
  void Meet(const Card& mine) {
    std::memcpy(memory_.data() + kOut, &mine, sizeof mine);
    const Sge out = Piece(kOut, sizeof mine);
    Need(pair_->Send(nullptr, &out, 1, 0), "post a card");
    AwaitRequests(1);
    ++met_;
    while (received_ < kMessages + met_) Take();
  }
  void CheckArea(std::size_t from, unsigned sender) {
    for (std::size_t at = 0; at < kArea; ++at) {
      Require(memory_[from + at] == ByteOf(sender, 0, at), "an area differs");
    }
  }
  void AwaitRequests(std::size_t more) {
    wanted_ += more;
    while (done_ < wanted_) Take();
  }
  void Take() {
    RequestResult result{};
    while (queue_->GetResults(&result, 1) == 0) AwaitNotice();
    Require(result.status == 0, "a request failed", result.status);
    Require(result.queue_pair_context == this, "a context differs");
    if (result.request_type != 0) {
      ++done_;
      return;
    }
    const std::size_t message = received_++;
    const std::uint8_t* const data = memory_.data() + kIn + message % kSlots * kLongest;
    if (message >= kMessages) {
      Require(result.bytes_transferred == sizeof theirs_, "a card has another length");
      std::memcpy(&theirs_, data, sizeof theirs_);
      return;
    }
    Require(result.bytes_transferred == LengthOf(message), "a message has another length");
    for (std::size_t at = 0; at < LengthOf(message); ++at) {
      Require(data[at] == ByteOf(peer_, message, at), "a message differs");
    }
    if (message + kSlots < kMessages + kCards) PostReceive(message + kSlots);
  }
  void AwaitNotice() { Need(Await(queue_.get(), queue_->Notify(1, &overlapped_), &overlapped_), "notify"); }

  const unsigned me_, peer_;
  HANDLE event_ = nullptr, file_ = nullptr;
  OVERLAPPED overlapped_{};
  Held<IND2Adapter> adapter_;
  Held<IND2CompletionQueue> queue_;
  Held<IND2MemoryRegion> region_;
  Held<IND2Connector> connector_;
  Held<IND2QueuePair> pair_;
  std::vector<std::uint8_t> memory_;
  std::size_t wanted_ = 0, done_ = 0, received_ = 0, met_ = 0;
  Card theirs_{};
};

int Run(std::vector<std::wstring> arguments) {
  const auto narrow = [](const std::wstring& text) { return std::string(text.begin(), text.end()); };
  const bool active = arguments.size() >= 4 && arguments[0] == L"connect";
  const std::size_t fixed = active ? 4 : 3;
  if (arguments.size() < fixed || arguments.size() > fixed + 1 || (!active && arguments[0] != L"listen")) {
    std::fprintf(stderr,
                 "usage: nd_exchange listen ADDRESS PORT [DLL] | connect OWN-ADDRESS ADDRESS PORT [DLL]\n");
    return 2;
  }
  WSADATA data;
  ::WSAStartup(0x202, &data);
  const std::wstring path = arguments.size() > fixed ? arguments[fixed] : PathInCatalogue();
  Require(!path.empty(), "the Winsock catalogue has no provider of Network Direct");
  const Dll dll(path.c_str());
  Require(static_cast<bool>(dll), "the DLL cannot be loaded");
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments[fixed - 1]));
  const std::string own = narrow(arguments[1]);
  {
    End end(SocketAddress(own.c_str(), 0), dll, active ? 1 : 2);
    if (active) {
      end.Connect(SocketAddress(own.c_str(), 0), SocketAddress(narrow(arguments[2]).c_str(), port));
    } else {
      end.Listen(SocketAddress(own.c_str(), port));
    }
    end.Exchange();
    end.Part(active);
  }
  Require(dll.can_unload_now() == S_OK, "objects are left");
  return 0;
}

}  // namespace
}  // namespace nd::spi

int wmain(int count, wchar_t** arguments) {
  return nd::spi::Run({arguments + 1, arguments + count});
}
