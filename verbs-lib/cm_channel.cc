// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/cm_channel.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <unordered_map>
#include <utility>

#include "verbs-lib/cm_id.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/wait.h"

namespace nd::verbs_lib {
namespace {

constexpr int kMaxFd = 1 << 20;

// Few programs have descriptors above this.
constexpr int kOwnFrom = 512;
// The open file of a channel has this mark, which its copies share: a signal that is never asked for. No
// other property of an eventfd could tell it from another eventfd.
constexpr int kMark = 63;

bool Marked(int fd) {
  return fcntl(fd, F_GETSIG) == kMark;
}

// The process that opened channels. A child of vfork() has the memory of its parent, and another number.
std::atomic<pid_t> opened_by{0};

// One bit for each descriptor: a fast test, because every write() and fstat() of the program makes it.
std::atomic<std::uint64_t> is_channel[kMaxFd / 64];

struct ChannelTable {
  std::mutex mutex;
  std::unordered_map<int, std::shared_ptr<CmChannel>> channels;
};

ChannelTable& channel_table() {
  static auto* instance = new ChannelTable;
  return *instance;
}

std::uint64_t BitOf(int fd) {
  return std::uint64_t{1} << (fd % 64);
}

}  // namespace

std::shared_ptr<CmChannel> CmChannel::Open() {
  if (RefuseInForkedChild()) return nullptr;
  const int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, kOwnFrom));
  if (!own) own = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));  // The limit may be lower.
  if (!own || fd >= kMaxFd || fcntl(fd, F_SETSIG, kMark) != 0) {
    close(fd);
    errno = EMFILE;
    return nullptr;
  }
  opened_by.store(getpid());
  std::shared_ptr<CmChannel> channel(new CmChannel(fd, std::move(own)));
  std::lock_guard lock(channel_table().mutex);
  channel_table().channels[fd] = channel;
  is_channel[fd / 64].fetch_or(BitOf(fd));
  return channel;
}

bool CmChannel::Is(int fd) {
  return fd >= 0 && fd < kMaxFd && (is_channel[fd / 64].load(std::memory_order_acquire) & BitOf(fd)) != 0;
}

std::shared_ptr<CmChannel> CmChannel::Of(int fd) {
  if (!Is(fd)) return nullptr;
  std::lock_guard lock(channel_table().mutex);
  const auto it = channel_table().channels.find(fd);
  return it == channel_table().channels.end() ? nullptr : it->second;
}

void CmChannel::Forget(int fd) {
  std::shared_ptr<CmChannel> last;
  {
    std::lock_guard lock(channel_table().mutex);
    is_channel[fd / 64].fetch_and(~BitOf(fd));
    const auto it = channel_table().channels.find(fd);
    if (it == channel_table().channels.end()) return;
    last = std::move(it->second);
    channel_table().channels.erase(it);
  }
  CmId::DestroyAllOf(last.get());
}

bool CmChannel::OpenedHere() {
  return opened_by.load() == getpid();
}

bool CmChannel::StillIs(int fd) {
  if (Marked(fd)) return true;
  if (OpenedHere()) Forget(fd);
  return false;
}

// The program may have closed our descriptor too, and opened a file under its number.
void CmChannel::BecomeReadable() {
  if (Marked(own_.get())) eventfd_write(own_.get(), 1);
}

void CmChannel::BecomeUnreadable() {
  eventfd_t count;
  // Does not block: the counter is 1 while an event waits.
  if (Marked(own_.get())) eventfd_read(own_.get(), &count);
}

void CmChannel::Push(Event event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  if (events_.size() == 1) BecomeReadable();
}

int CmChannel::Pop(Event* event) {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (!events_.empty()) {
        *event = std::move(events_.front());
        events_.pop_front();
        if (events_.empty()) BecomeUnreadable();
        return 0;
      }
    }
    if (!Marked(own_.get())) return EBADF;
    if (WaitReadable(own_.get()) != 0) return errno;
  }
}

std::deque<CmChannel::Event> CmChannel::Remove(const CmId* owner) {
  std::deque<Event> removed, kept;
  std::lock_guard lock(mutex_);
  if (events_.empty()) return removed;
  for (Event& event : events_) {
    (event.owner.get() == owner || event.request.get() == owner ? removed : kept).push_back(std::move(event));
  }
  events_.swap(kept);
  if (events_.empty()) BecomeUnreadable();
  return removed;
}

}  // namespace nd::verbs_lib
