// SPDX-License-Identifier: Apache-2.0
// A broker for the unit tests of the library: answers every operation with success unless the test sets
// another answer, and can end and restart. Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/unique_fd.h"
#include "client-lib/core/carriers.h"
#include "client-lib/core/open.h"
#include "client-lib/core/testing/fake_device.h"
#include "nd/adapter.h"
#include "session/codec.h"

namespace nd::client {

// Every hand-over brings this proof for Reattach.
inline const session::Bytes kProof = {0x00, 0x70, 0xFF};

// The addresses between which the tests connect.
inline const Address kHere = Address::Parse("127.0.0.1:0").value();
inline const Address kThere = Address::Parse("127.0.0.1:7000").value();

// An operation, or Hello, that the library sent.
template <typename T>
struct Asked : T {
  session::OpId id = 0;
};

class FakeBroker {
 public:
  // Returns no value to leave the message unanswered for now (see Complete).
  using Handler = std::function<std::optional<Reply>(const session::ClientMessage& message)>;

  FakeBroker();
  ~FakeBroker();

  Environment environment();
  Adapter Open(const OpenOptions& options = {});

  // Replaces the answer to one kind of operation.
  template <typename T>
  void On(Handler handler) {
    On(NameOf<T>(), std::move(handler));
  }
  void Send(session::ServerMessage message);  // To the newest session, in order with the answers.
  void Complete(session::OpId op_id, Status status = {});
  // A hand-over for `connector`, on the lane. Returns its id. `record` may be damaged by `damage`.
  std::uint64_t SendHandOff(session::Handle connector,
                            const std::function<void(provider::HandOffRecord&)>& damage = {});
  // Sends a counters page and answers CreateQueuePair with `slot` of it. The accessor returns the page as the
  // broker sees it.
  void GiveCounters(std::uint32_t slot);
  const provider::QpCounters* counters(std::uint32_t slot);
  // The words in that page where the client finds spares.
  provider::SpareWords& spares();
  // Ends the session and refuses new ones, until Start().
  void Kill();
  void Start();

  // Blocks until `count` operations of the kind have arrived in total; returns the newest.
  template <typename T>
  Asked<T> Await(std::size_t count = 1) {
    const session::ClientMessage message = Await(NameOf<T>(), count);
    if constexpr (std::is_same_v<T, session::Hello>) {
      return {std::get<T>(message.content), message.op_id};
    } else {
      return {std::get<T>(std::get<session::Operation>(message.content)), message.op_id};
    }
  }
  template <typename T>
  std::size_t Count() {
    return Count(NameOf<T>());
  }
  std::vector<std::string> Names();  // The names of all messages that arrived.
  // Blocks until the client acknowledged that id.
  bool Acknowledged(std::uint64_t id);

  // How often a session asked for its reader, because nobody else reads an answer that is awaited.
  int attended() const { return attended_; }
  // How many messages were put off.
  int put_off() const { return put_off_; }
  // How many messages were sent together with others in how many groups.
  int together() const { return together_; }
  int groups() const { return groups_; }
  // The bits of the token of the next session.
  void SetFeatures(std::uint32_t features) { features_ = features; }
  // Whether a message can be sent without waiting; it can at first.
  void SetFull(bool full) { full_ = full; }
  // The thread that sent a message without waiting, the last of them.
  std::thread::id last_at_once() const { return last_at_once_; }

  FakeDevice& device() { return *device_; }

 private:
  class Link;
  static std::string NameOf(const session::ClientMessage& message);
  template <typename T>
  static std::string NameOf() {
    return NameOf(session::ClientMessage{0, T{}});
  }
  void On(const std::string& name, Handler handler);
  session::ClientMessage Await(const std::string& name, std::size_t count);
  std::size_t Count(const std::string& name);
  std::optional<Reply> Answer(const session::ClientMessage& message);
  void Record(const session::ClientMessage& message);

  std::atomic<int> attended_{0}, put_off_{0}, together_{0}, groups_{0};
  std::atomic<std::uint32_t> features_{0};
  std::atomic<bool> full_{false};
  std::atomic<std::thread::id> last_at_once_{};
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Handler> handlers_;
  std::vector<session::ClientMessage> messages_;
  bool running_ = true;
  UniqueFd lane_;
  Mapping counters_;
  Link* link_ = nullptr;
  std::uint64_t next_handle_ = 100;
  std::uint64_t next_hand_off_ = 1;
};

}  // namespace nd::client
