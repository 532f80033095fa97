// SPDX-License-Identifier: Apache-2.0
// verbs_answers: one end of a scenario, a program of librdmacm and libibverbs that prints each answer that it
// gets: errno of functions, events of rdma_cm, completions, states, events of devices. The same program runs
// on the kernel's rxe and siw (tests/vm) and on a broker, and the lines are compared (compare.py).
//
// Everything that is printed must be the same in each run on one kind of device: no addresses, no times, and
// for events that may come in any order a wait for each of them.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstdint>
#include <string>

namespace nd::verbs_programs {

struct Place {
  std::string address;  // Of the passive end.
  std::string absent;   // An address of the same network that no host has.
};

class End {
 public:
  // `peer`: a socket to the other end, or -1.
  End(const Place& place, std::string name, int peer);

  const Place& place() const { return place_; }

  // Prints "SCENARIO.END LABEL: VALUE".
  void Say(const std::string& label, const std::string& value) const;
  // The result of a function of librdmacm (-1 and errno), or of libibverbs (errno).
  void Cm(const char* label, int result) const;
  void Verb(const char* label, int error) const;
  // Of a function that makes an object.
  void Made(const char* label, const void* object) const;

  // One number to the other end and from it. Await() ends the program when the other end has ended without a
  // word.
  void Tell(std::uint32_t number) const;
  std::uint32_t Await() const;
  // Waits until the other end has ended.
  void AwaitItsEnd() const;

  // An identifier of the scenario's channel.
  rdma_cm_id* NewIdentifier() const;
  sockaddr_storage Address(const std::string& text, std::uint16_t port) const;

  // The passive end: an identifier that is bound to the address of the place and listens. Its port goes to
  // the peer.
  rdma_cm_id* Listen(int backlog = 8) const;
  // The active end: address and route of the peer's port. The events are printed only when they are others.
  rdma_cm_id* Resolve(std::uint16_t port) const;
  // The next event, acknowledged. Prints it under `label`, unless it is `expected`. Returns its identifier,
  // null for none within `seconds`.
  rdma_cm_id* Event(const char* label, int expected = -1, int seconds = 20) const;
  rdma_cm_id* Silently(rdma_cm_event_type expected) const { return Event("event", expected); }

 private:
  Place place_;
  std::string name_;
  int peer_;
  rdma_event_channel* channel_;
};

std::string NameOf(int error);

struct Wants {
  std::uint32_t depth = 16;
  int completions = 64;  // Of each completion queue.
  int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  bool shared_receives = false;
};

// Queue pair, completion queues and memory of one identifier.
struct Data {
  Data(const End& end, rdma_cm_id* id, const Wants& wants = {});

  // Requests name the 4096 bytes at `memory` by `local_key`. wr_id is `number`.
  int Receive(std::uint64_t number, std::uint32_t length = 256);
  int Send(std::uint64_t number, std::uint32_t length = 64) { return Post(number, IBV_WR_SEND, length); }
  int Post(std::uint64_t number, ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t remote = 0,
           std::uint32_t key = 0);
  // Prints the next completions of requests that were sent, or of receives.
  void Sent(const char* label, int count = 1, int seconds = 20) const {
    Completions(label, sent, count, seconds);
  }
  void Received(const char* label, int count = 1, int seconds = 20) const {
    Completions(label, received, count, seconds);
  }
  void Completions(const char* label, ibv_cq* queue, int count, int seconds) const;
  void State(const char* label) const;
  // The next event of the device, which is acknowledged.
  void DeviceEvent(const char* label, int seconds = 10) const;

  const End& end;
  rdma_cm_id* id;
  alignas(4096) std::array<char, 4096> memory{};
  ibv_mr* region = nullptr;
  std::uint32_t local_key = 0;
  ibv_cq* sent = nullptr;
  ibv_cq* received = nullptr;
  ibv_srq* shared = nullptr;
  unsigned send_flags = IBV_SEND_SIGNALED;
};

// The parameters of all connections; `text` becomes the private data.
rdma_conn_param Parameters(const char* text = nullptr);

// The ends of an established connection of which nothing is printed. The passive end has posted two receives,
// 1 and 2. They live as long as the process.
Data& Accepted(const End& end, const Wants& wants = {});
Data& Connected(const End& end, const Wants& wants = {}, rdma_conn_param parameters = Parameters());

using Scenario = void (*)(End&);
struct Row {
  const char* name;
  Scenario passive;  // Null: the scenario has one end.
  Scenario active;
};
extern const Row* const kConnections;  // Ends with a row without name.
extern const Row* const kRequests;
extern const Row* const kObjects;

}  // namespace nd::verbs_programs
