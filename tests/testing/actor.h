// SPDX-License-Identifier: Apache-2.0
// The view of a test on an actor process, so that a case reads like the specification. An object here names
// an object of the actor; copies name the same one. Objects live until they are closed or until
// Actor::Reset(). One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "tests/testing/channel.h"
#include "tests/testing/message.h"

namespace nd::testing {

class Actor;
using std::chrono::milliseconds;
inline constexpr milliseconds kPatience{10'000};

// An operation that was started: its inline status, and its completion if there is one.
class Outcome {
 public:
  Outcome() = default;
  Outcome(Actor* actor, Status inline_status, std::uint32_t op)
      : actor_(actor), inline_(std::move(inline_status)), op_(op) {}
  const Status& inline_status() const { return inline_; }
  // Waits for the final status; PENDING when `patience` passed.
  Status Wait(milliseconds patience = kPatience) const;
  bool pending() const { return Wait(milliseconds(0)).pending(); }
  int completions() const;
  Status told() const;  // The status that the callback received.
  std::uint32_t op() const { return op_; }

 private:
  Actor* actor_ = nullptr;
  Status inline_;
  std::uint32_t op_ = 0;
};

// An object of the actor, or the status of its failed creation.
class Object {
 public:
  Object() = default;
  Object(Actor* actor, Status status, std::uint32_t id)
      : actor_(actor), status_(std::move(status)), id_(id) {}
  const Status& status() const { return status_; }
  Actor& actor() const { return *actor_; }
  std::uint32_t id() const { return id_; }
  explicit operator bool() const { return id_ != 0; }
  Outcome Close() const { return CloseAs(false); }
  Outcome NdkClose() const { return CloseAs(true); }
  void Drop() const;  // Destroys the last copy.
  Status Cancel() const;
  Result<Address> GetLocalAddress() const;
  // GetLocalAddress / GetPeerAddress into a buffer of `capacity` bytes (null: no buffer).
  struct Raw {
    Status status;
    std::uint64_t length = 0;
    std::string bytes{};  // `capacity` bytes and 64 guard bytes of 0xA5 behind.
    bool untouched(std::size_t from = 0) const;
  };
  Raw GetAddressRaw(bool peer, std::uint32_t capacity, bool null = false) const;

 protected:
  Outcome CloseAs(bool ndk) const;
  Outcome Begin(const Writer& message) const;
  Status Simple(const Writer& message) const;
  Actor* actor_ = nullptr;
  Status status_;
  std::uint32_t id_ = 0;
};

struct Work {
  StatusCode status = StatusCode::kPending;
  std::uint32_t bytes = 0;
  std::uint64_t qp = 0;
  std::uint64_t context = 0;
  RequestType type = RequestType::kReceive;
};

class Cq : public Object {
 public:
  using Object::Object;
  std::vector<Work> Poll(std::uint32_t max = 64) const;
  // Waits for one completion; its status is kPending when none came in time.
  Work Next(milliseconds patience = kPatience) const;
  Status Notify(NotifyType type) const;
  bool Notified(milliseconds patience) const;
  void ConsumeNotification() const;
  Status Resize(std::uint32_t depth) const;
  Status State() const;
};

class Memory : public Object {
 public:
  using Object::Object;
  std::uint64_t address = 0;
  std::uint32_t token = 0;
  void Fill(std::uint64_t offset, std::uint64_t length, std::uint64_t seed) const;
  bool Check(std::uint64_t offset, std::uint64_t length, std::uint64_t seed) const;
  std::string Peek(std::uint64_t offset, std::uint32_t length) const;
  void Poke(std::uint64_t offset, std::string_view bytes) const;
  Status Deregister() const;
};

class Window : public Object {
 public:
  using Object::Object;
  std::uint32_t token() const;
};

struct Slice {
  std::uint32_t memory = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

class Srq : public Object {
 public:
  using Object::Object;
  Status Receive(std::uint64_t context, const Memory& memory, std::uint64_t offset,
                 std::uint32_t length) const;
};

class Qp : public Object {
 public:
  using Object::Object;
  Cq cq;  // For initiator requests, and for receives unless they have their own.
  Cq receive_cq;
  // Posts requests on the scratch memory of the actor.
  Status Receive(std::uint64_t context, std::uint64_t offset = 0, std::uint32_t length = 1024) const;
  Status Send(std::uint64_t context, std::uint64_t offset = 0, std::uint32_t length = 64,
              std::uint32_t flags = 0) const;
  Status Write(std::uint64_t context, const Memory& to, std::uint64_t remote_offset, std::uint32_t length,
               std::uint64_t offset = 0, std::uint32_t flags = 0) const;
  Status Read(std::uint64_t context, const Memory& from, std::uint64_t remote_offset, std::uint32_t length,
              std::uint64_t offset = 0, std::uint32_t flags = 0) const;
  Status Post(RequestType type, std::uint64_t context, const std::vector<Slice>& slices,
              std::uint64_t remote = 0, std::uint32_t token = 0, std::uint32_t flags = 0) const;
  Status BindWindow(std::uint64_t context, const Memory& memory, const Window& window, std::uint64_t offset,
                    std::uint64_t length, std::uint32_t flags) const;
  Status Invalidate(std::uint64_t context, const Window& window) const;
  Status Flush() const;
};

struct ConnectArguments {
  ReadLimits limits{16, 16};
  std::string data{};
  std::uint32_t missing = 0;  // A length without a buffer.
  Tell tell = Tell::kRing;
};

class Endpoint : public Object {
 public:
  using Object::Object;
};

class Connector : public Object {
 public:
  using Object::Object;
  Status Bind(const Address& local) const;
  Outcome Connect(const Qp& qp, const Address& remote, const ConnectArguments& arguments = {}) const;
  Outcome NdkConnect(const Qp& qp, const Address& source, const Address& remote,
                     const ConnectArguments& arguments = {}) const;
  Outcome ConnectShared(const Qp& qp, const Endpoint& endpoint, const Address& remote,
                        const ConnectArguments& arguments = {}) const;
  Outcome CompleteConnect(Tell tell = Tell::kRing) const;
  Outcome Accept(const Qp& qp, const ConnectArguments& arguments = {}) const;
  Status Reject(std::string_view data = {}, std::uint32_t missing = 0) const;
  struct Limits {
    Status status;
    ReadLimits limits;
  };
  Limits GetReadLimits(bool inbound = true, bool outbound = true) const;
  Raw GetPrivateData(std::uint32_t capacity, bool null = false) const;
  // Returns all private data, or the status when there is none.
  Result<std::string> PrivateData() const;
  struct ConnectionData {
    Raw data;
    ReadLimits limits;
  };
  ConnectionData NdkGetConnectionData(std::uint32_t capacity, bool null = false) const;
  Result<Address> GetPeerAddress() const;
  Outcome NotifyDisconnect() const;
  void SetDisconnectCallback() const;
  std::vector<std::uint8_t> DisconnectEvents() const;
  DisconnectReason disconnect_reason() const;
  Outcome Disconnect() const;

 private:
  Outcome ConnectAs(Verb verb, const Qp& qp, const Address& source, std::uint32_t endpoint,
                    const Address& remote, const ConnectArguments& arguments) const;
};

class Listener : public Object {
 public:
  using Object::Object;
  Status Bind(const Address& local) const;
  Status Listen(std::uint32_t backlog = 0) const;
  Outcome GetConnectionRequest(const Connector& connector) const;
  Status ControlConnectEvents(bool pause) const;
  // NDK listener: waits for the next delivered connector.
  Connector TakeConnectEvent(milliseconds patience = kPatience) const;
};

struct QpArguments {
  Cq cq{}, receive_cq{};  // Made when not given.
  Srq srq{};
  std::uint64_t context = 0;
  std::uint32_t receive_depth = 64, initiator_depth = 64;
  std::uint32_t receive_sge = 4, initiator_sge = 4, inline_size = 64;
};

struct ActorOptions {
  std::string broker{};
  std::string adapter{};
  std::string application = "actor";
  bool progress_thread = true;
  bool reconnect = true;
  std::optional<std::uint32_t> uid{};
  int network_namespace = -1;
};

class Actor {
 public:
  explicit Actor(ActorOptions options);
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // Starts the process; Open() opens its (first) adapter.
  void Start();
  Status Open();
  // Opens another session of the same process. Objects are made on adapter `adapter`; 0 is the first.
  Object OpenAdapter(const std::string& name);
  Status CloseAdapter(std::uint32_t adapter = 0);
  bool alive() const { return alive_; }
  void Kill();  // SIGKILL; its objects are gone.
  Process& process() { return channel_.process(); }
  const ActorOptions& options() const { return options_; }

  AdapterInfo Info(std::uint32_t adapter = 0);
  Result<std::vector<Address>> QueryAddressList();
  Result<Address> ResolveAddress(const Address& remote);
  Status CheckAddress(const Address& local);
  bool Connected();
  std::vector<std::uint8_t> SessionEvents();

  Connector CreateConnector(std::uint32_t adapter = 0) {
    return Make<Connector>(Verb::kCreateConnector, adapter);
  }
  Listener CreateListener(std::uint32_t adapter = 0) {
    return Make<Listener>(Verb::kCreateListener, adapter);
  }
  Endpoint CreateSharedEndpoint(const Address& local, std::uint32_t adapter = 0);
  Listener NdkListen(const Address& local, std::uint32_t adapter = 0);
  Cq CreateCq(std::uint32_t depth = 512, std::uint32_t adapter = 0);
  Srq CreateSrq(std::uint32_t depth = 64);
  Qp CreateQp(const QpArguments& arguments = {}, std::uint32_t adapter = 0);
  // `buffer` false: ordinary memory, which a peer on this host cannot map.
  Memory Allocate(std::uint64_t size, std::uint32_t access, bool buffer = true);
  Status RegisterRaw(std::uint64_t address, std::uint64_t length, std::uint32_t access);
  Window CreateWindow();
  const Memory& Scratch();  // 4 MiB with every right.

  std::vector<std::uint32_t> CompletionLog();
  struct ForkReport {
    Status inherited, own;
    int exit_status = -1;
  };
  ForkReport Fork();
  // On this actor's adapter.
  std::string Program(const std::string& name, const std::string& arguments);
  std::uint32_t StartProgram(const std::string& name, const std::string& arguments);
  // Returns "" when it still runs after `patience`.
  std::string JoinProgram(std::uint32_t id, milliseconds patience);
  // Closes every object. Returns one line for each operation with a missing or extra completion.
  std::vector<std::string> Reset();

  std::string Call(const Writer& message);
  static Status Gone() { return Status(StatusCode::kUnsuccessful, "the actor is gone"); }

 private:
  template <typename T>
  T Make(Verb verb, std::uint32_t adapter) {
    return Made<T>(Writer().Put(verb).Put(adapter != 0 ? adapter : adapter_));
  }
  template <typename T>
  T Made(const Writer& message) {
    const std::string answer = Call(message);
    if (answer.empty()) return T(this, Gone(), 0);
    Reader in(answer);
    Status status = in.Status();
    return T(this, std::move(status), in.U32());
  }
  friend class Object;
  friend class Outcome;

  ActorOptions options_;
  Channel channel_;
  bool alive_ = false;
  std::uint32_t adapter_ = 0;
  Memory scratch_;
};

}  // namespace nd::testing
