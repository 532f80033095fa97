// SPDX-License-Identifier: Apache-2.0
// A direction reads no more until everything that it read is written.
#include "cli/pipe_relay_win.h"

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/os/readiness.h"
#include "base/os/socket.h"
#include "base/os/thread.h"
#include "base/os/wait.h"

namespace nd::cli {
namespace {

bool Later(int error) {
  return error == EAGAIN || error == EINTR;
}

}  // namespace

PipeRelay::PipeRelay(UniqueFd pipe, UniqueFd socket) {
  pipe_.fd = std::move(pipe);
  socket_.fd = std::move(socket);
  thread_ = std::thread([this] { Run(); });
  os::NameThread(thread_, "nd-relay");
}

void PipeRelay::Stop() {
  stop_.Set();
  closed_.get_future().wait();
}

PipeRelay::~PipeRelay() {
  stop_.Set();
  thread_.join();
}

bool PipeRelay::Read(Side& from, Side& to) {
  std::array<std::byte, os::kStreamMessage> buffer;
  const std::ptrdiff_t n = os::Receive(from.fd.get(), buffer.data(), buffer.size());
  if (n < 0) return Later(errno);
  if (n == 0) {
    from.ended = true;
    os::ShutDown(to.fd.get(), os::Direction::kSend);
    return true;
  }
  to.unsent.assign(buffer.begin(), buffer.begin() + n);
  to.sent = 0;
  return Flush(to);
}

bool PipeRelay::Flush(Side& to) {
  while (to.sent < to.unsent.size()) {
    const std::ptrdiff_t n = os::Send(to.fd.get(), to.unsent.data() + to.sent, to.unsent.size() - to.sent);
    if (n < 0) return Later(errno);
    to.sent += static_cast<std::size_t>(n);
  }
  to.unsent.clear();
  return true;
}

void PipeRelay::Run() {
  const auto wanted = [](const Side& side, const Side& other) {
    return (!side.ended && other.unsent.empty() ? os::kReadable : 0u) |
           (side.unsent.empty() ? 0u : os::kWritable);
  };
  while (true) {
    // gRPC or the broker has closed, and the other side has every byte.
    if ((socket_.ended && pipe_.unsent.empty()) || (pipe_.ended && socket_.unsent.empty())) break;
    os::Watched entries[] = {{pipe_.fd.get(), wanted(pipe_, socket_)},
                             {socket_.fd.get(), wanted(socket_, pipe_)},
                             {stop_.handle(), os::kReadable}};
    // The hang-up of a side from which nothing is wanted would be reported again and again.
    for (os::Watched& entry : entries) {
      if (entry.wanted == 0) entry.fd = -1;
    }
    if (os::Wait(entries, os::kNoLimit) < 0 && !Later(errno)) break;
    if (entries[2].ready != 0) break;
    bool whole = true;
    for (int i = 0; i < 2 && whole; ++i) {
      Side& side = i == 0 ? pipe_ : socket_;
      Side& other = i == 0 ? socket_ : pipe_;
      const std::uint32_t ready = entries[i].ready;
      if ((ready & os::kWritable) != 0) whole = Flush(side);
      const bool readable = (ready & (os::kReadable | os::kHungUp | os::kFailed)) != 0;
      if (whole && readable && !side.ended && other.unsent.empty()) whole = Read(side, other);
    }
    if (!whole) break;
  }
  pipe_.fd.reset();
  socket_.fd.reset();
  closed_.set_value();
}

}  // namespace nd::cli
