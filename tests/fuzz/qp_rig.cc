// SPDX-License-Identifier: Apache-2.0
// The device outlives all inputs, because making its memory table costs more than running an input.
#include "tests/fuzz/qp_rig.h"
#include "provider/soft/transports.h"

#include <sys/socket.h>

namespace nd::fuzz {

AdapterInfo QpRig::Adapter() {
  AdapterInfo info;
  info.name = "soft0";
  provider::soft::FillSoftAdapterInfo(&info);
  return info;
}

QpRig::QpRig(bool patient) {
  using namespace provider;
  soft::Tuning tuning;
  tuning.rnr_timeout = patient ? Duration(std::chrono::hours(1)) : Duration::zero();
  device = soft::MakeSoftDevice(Adapter(), {.progress_thread = false}, tuning).value();
  const auto add = [&](std::size_t page, std::size_t start, std::size_t length, std::uint32_t access) {
    regions[page] = device->Register(arena.page(page) + start, length, access).value();
  };
  add(kWritablePage, 0, Arena::kPage, kAllowRemoteWrite | kAllowRemoteAtomic);
  add(kReadablePage, 0, Arena::kPage, kAllowRemoteRead);
  add(kPartPage, kPartStart, kPartLength, kAllowRemoteRead | kAllowRemoteWrite);
  add(kLocalPage, 0, Arena::kPage, kAllowLocalWrite);
  add(kWindowPage, 0, Arena::kPage, kAllowLocalWrite);
  add(kSourcePage, 0, Arena::kPage, 0);

  other_cq_ = device->CreateCompletionQueue(16).value();
  QpOptions options;
  options.receive_cq = options.initiator_cq = other_cq_;
  options.receive_depth = options.initiator_depth = 4;
  other_qp_ = device->CreateQueuePair(options).value();
  int ends[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "a pair of sockets");
  other_peer_ = UniqueFd(ends[1]);
  HandOff hand_off;
  hand_off.record = provider::soft::IwarpRecord();
  hand_off.fds.emplace_back(ends[0]);
  Require(other_qp_->Attach(std::move(hand_off)).ok(), "the other connection");
  other_window = device->CreateWindow().value();
  Require(other_qp_
              ->BindWindow(nullptr, *regions[kWindowPage], *other_window,
                           arena.page(kWindowPage) + kOtherWindowStart, kWindowLength,
                           kOpAllowRead | kOpAllowWrite)
              .ok(),
          "the other connection's window");
}

QpUnderTest::QpUnderTest(QpRig& rig) {
  cq_ = rig.device->CreateCompletionQueue(4096).value();
  provider::QpOptions options;
  options.receive_cq = options.initiator_cq = cq_;
  options.receive_depth = options.initiator_depth = 32;
  options.max_receive_sge = options.max_initiator_sge = 4;
  options.inline_size = 64;
  options.on_peer_closed = [closed = closed_](DisconnectReason, const Status&) { ++*closed; };
  qp_ = rig.device->CreateQueuePair(options).value();
}

QpUnderTest::~QpUnderTest() {
  Finish();
}

void QpUnderTest::Posted(const Status& status, bool receive, bool silent) {
  if (!status.ok()) return;
  if (receive) {
    ++next_receive_;
  } else {
    silent_[next_initiator_++] = silent;
  }
}

void QpUnderTest::Took(const Completion& completion) {
  const auto tag = reinterpret_cast<std::uintptr_t>(completion.request_context);
  if (completion.type == RequestType::kReceive) {
    Require(tag == done_receive_++ && tag < next_receive_, "receives complete once, in order");
    return;
  }
  for (; done_initiator_ < tag; ++done_initiator_) {
    Require(silent_[done_initiator_], "only silent requests end without a completion");
  }
  Require(tag == done_initiator_++ && tag < next_initiator_, "requests complete once, in order");
}

std::size_t QpUnderTest::Poll(std::vector<Completion>* receives) {
  Completion some[16];
  const std::size_t n = cq_->Poll(some);
  for (std::size_t i = 0; i < n; ++i) {
    Took(some[i]);
    if (receives != nullptr && some[i].type == RequestType::kReceive) receives->push_back(some[i]);
  }
  return n;
}

void QpUnderTest::Finish() {
  if (!qp_) return;
  qp_->Drop();
  while (Poll(nullptr) != 0) {
  }
  Require(cq_->state().ok(), "the completion queue is not overrun");
  Require(done_receive_ == next_receive_, "every receive has completed");
  for (; done_initiator_ < next_initiator_; ++done_initiator_) {
    Require(silent_[done_initiator_], "every request has completed");
  }
  Require(*closed_ <= 1, "the end is told once");
  qp_.reset();
}

}  // namespace nd::fuzz
