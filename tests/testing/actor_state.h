// SPDX-License-Identifier: Apache-2.0
// The state of an actor process: objects of the public API by number, and every operation it started.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nd/nd.h"
#include "tests/testing/message.h"

namespace nd::testing {

using Id = std::uint32_t;

struct Op {
  nd::Request request;
  Tell tell = Tell::kRing;
  Status inline_status;
  std::atomic<int> completions{0};
  std::mutex mutex;
  Status told;  // The status from the callback or the ring.
};

struct Memory {
  nd::Buffer buffer;
  std::unique_ptr<std::byte[]> heap;
  std::byte* data = nullptr;
  std::size_t size = 0;
  nd::MemoryRegion region;
};

struct ConnectorObject {
  nd::Connector connector;
  std::shared_ptr<std::vector<std::uint8_t>> reasons = std::make_shared<std::vector<std::uint8_t>>();
  std::shared_ptr<std::mutex> mutex = std::make_shared<std::mutex>();
};

struct ListenerObject {
  nd::Listener listener;
  struct Incoming {
    std::mutex mutex;
    std::deque<nd::Connector> waiting;
  };
  std::shared_ptr<Incoming> incoming = std::make_shared<Incoming>();
};

class ActorState {
 public:
  std::string Answer(const std::string& message);

 private:
  friend class ActorCalls;

  template <typename T>
  using Table = std::map<Id, std::unique_ptr<T>>;
  template <typename T>
  T& Find(Table<T>& table, Id id) {
    const auto found = table.find(id);
    if (found == table.end()) std::abort();
    return *found->second;
  }
  template <typename T>
  Id Keep(Table<T>& table, T value) {
    table[++last_id_] = std::make_unique<T>(std::move(value));
    return last_id_;
  }

  bool AnswerSession(Verb verb, Reader& in, Writer& out);
  bool AnswerConnection(Verb verb, Reader& in, Writer& out);
  bool AnswerOp(Verb verb, Reader& in, Writer& out);
  bool AnswerData(Verb verb, Reader& in, Writer& out);
  bool AnswerMemory(Verb verb, Reader& in, Writer& out);
  bool AnswerWhole(Verb verb, Reader& in, Writer& out);

  // Runs `call` with a new operation; writes {status, op id}.
  void Begin(Reader& in, Writer& out, const std::function<Status(nd::Request*)>& call);
  void DrainRings();
  void Reset(Writer& out);
  void Fork(nd::Adapter& adapter, const std::string& directory, Writer& out);
  void CloseAny(Id id, bool ndk, nd::Request* request, Status* status);
  std::vector<nd::Sge> ReadSges(Reader& in);
  void PutCompletions(std::span<const nd::Completion> list, Writer& out);

  Id last_id_ = 0;
  Table<nd::Adapter> adapters_;
  Table<ConnectorObject> connectors_;
  Table<ListenerObject> listeners_;
  Table<nd::SharedEndpoint> endpoints_;
  Table<nd::CompletionQueue> cqs_;
  Table<nd::SharedReceiveQueue> srqs_;
  Table<nd::QueuePair> qps_;
  Table<Memory> memories_;
  Table<nd::MemoryWindow> windows_;
  std::map<Id, std::shared_ptr<Op>> ops_;
  std::vector<Id> completion_log_;
  std::shared_ptr<std::vector<std::uint8_t>> session_events_ = std::make_shared<std::vector<std::uint8_t>>();
  std::shared_ptr<std::mutex> session_mutex_ = std::make_shared<std::mutex>();
  Id close_from_callback_ = 0;

  struct Running {
    std::thread thread;
    std::shared_ptr<std::string> result = std::make_shared<std::string>();
    std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
  };
  std::map<Id, Running> programs_;
};

// Deterministic contents: byte i of pattern `seed`.
std::byte PatternByte(std::uint64_t seed, std::size_t i);

}  // namespace nd::testing
