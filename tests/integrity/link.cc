// SPDX-License-Identifier: Apache-2.0
// Every function here ends the program with a message on failure.
#include "tests/integrity/link.h"

#include <poll.h>

#include <thread>

#include "tests/testing/process.h"

namespace nd::integrity {

Memory::Memory(Adapter& adapter, std::size_t size, bool heap) : size_(size) {
  if (heap) {
    heap_ = std::make_unique<std::byte[]>(size);
    data_ = heap_.get();
    region_ = Must(adapter.Register(data_, size, kEveryRight), "Register");
  } else {
    buffer_ = Must(adapter.AllocateBuffer(size), "AllocateBuffer");
    data_ = buffer_.data();
    region_ = Must(adapter.Register(buffer_, kEveryRight), "Register");
  }
}

Waiting WaitingOf(const std::string& name) {
  if (name == "poll") return Waiting::kPoll;
  if (name == "wait") return Waiting::kWait;
  if (name == "notify") return Waiting::kNotify;
  Die("waiting is poll, wait or notify, not \"" + name + "\"");
}

Completions::Completions(Adapter& adapter, std::uint32_t depth, Waiting waiting)
    : queue_(Must(adapter.CreateCompletionQueue(depth), "CreateCompletionQueue")), waiting_(waiting) {}

std::span<const Completion> Completions::Poll() {
  return {batch_, queue_.Poll(batch_)};
}

std::span<const Completion> Completions::Next(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (unsigned round = 0;; ++round) {
    const std::span<const Completion> got = Poll();
    if (!got.empty()) return got;
    if ((waiting_ != Waiting::kPoll || round % 1024 == 0) && std::chrono::steady_clock::now() >= end) {
      return {};
    }
    switch (waiting_) {
      case Waiting::kPoll:
        // If the peer runs on the same processor, spinning would keep it from answering.
        if (round % 64 == 63) std::this_thread::yield();
        break;
      case Waiting::kWait:
        (void)queue_.Wait(patience);
        break;
      case Waiting::kNotify: {
        Must(queue_.Notify(NotifyType::kAny), "Notify");
        pollfd ready{queue_.handle(), POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>(patience.count())) == 1) queue_.ConsumeNotification();
        break;
      }
    }
  }
}

Link::Link(Adapter& adapter, Completions& completions, const LinkOptions& options) {
  QueuePairOptions pair;
  pair.receive_cq = pair.initiator_cq = &completions.queue();
  pair.shared_receive_queue = options.srq;
  pair.context = options.context;
  pair.receive_depth = options.receive_depth;
  pair.initiator_depth = options.initiator_depth;
  pair.max_receive_sge = pair.max_initiator_sge = options.sge;
  pair.inline_data_size = options.inline_size;
  pair_ = Must(adapter.CreateQueuePair(pair), "CreateQueuePair");
  connector_ = Must(adapter.CreateConnector(), "CreateConnector");
}

void Link::Connect(const Address& from, const Address& to) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    Request request;
    const Status status =
        Await(connector_.NdkConnect(pair_, from, to, {.limits = {16, 16}}, &request), request);
    if (status.ok()) break;
    if (!(status == StatusCode::kConnectionRefused) || std::chrono::steady_clock::now() > end) {
      Die("Connect: " + status.ToString());
    }
    testing::NapBetweenPolls({});
  }
  Must(connector_.CompleteConnect(), "CompleteConnect");
}

void Link::Accept(Listener& listener) {
  Request request, accepting;
  Must(Await(listener.GetConnectionRequest(connector_, &request), request), "GetConnectionRequest");
  Must(Await(connector_.Accept(pair_, {.limits = {16, 16}}, &accepting), accepting), "Accept");
}

void Link::Disconnect() {
  Request request;
  Must(Await(connector_.Disconnect(&request), request), "Disconnect");
}

void Link::AwaitGoodbye() {
  Request request;
  Must(Await(connector_.NotifyDisconnect(&request), request), "NotifyDisconnect");
  if (connector_.disconnect_reason() != DisconnectReason::kPeerDisconnected) {
    Die("the connection ended by " + std::string(Name(connector_.disconnect_reason())));
  }
  Disconnect();
}

void Link::Close() {
  Must(connector_.Close(), "Connector::Close");
  Must(pair_.Close(), "QueuePair::Close");
}

Adapter OpenFor(const Words& words) {
  OpenOptions open;
  open.broker = words.Text("broker");
  open.adapter = "soft0";
  open.application = "integrity";
  return Must(Adapter::Open(open), "Open");
}

Listener ListenAt(Adapter& adapter, const Address& at) {
  Listener listener = Must(adapter.CreateListener(), "CreateListener");
  Must(listener.Bind(at), "Bind");
  Must(listener.Listen(), "Listen");
  return listener;
}

Status Await(Status begun, Request& request) {
  if (!begun.pending()) return begun;
  testing::Eventually(
      [&] {
        begun = request.GetResult(false);
        return !begun.pending();
      },
      kPatience);
  return begun;
}

}  // namespace nd::integrity
