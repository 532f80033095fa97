// SPDX-License-Identifier: Apache-2.0
// Scenarios of requests on a connection: completions, states, and events of the device.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "tests/verbs-programs/answers/end.h"

namespace nd::verbs_programs {
namespace {

struct Remote {
  std::uint64_t address;
  std::uint32_t key;
};

// The passive end tells the active one where its memory is.
void TellMemory(const End& end, const Data& data, std::uint32_t key) {
  const auto address = reinterpret_cast<std::uintptr_t>(data.memory.data());
  end.Tell(static_cast<std::uint32_t>(address >> 32));
  end.Tell(static_cast<std::uint32_t>(address));
  end.Tell(key);
}

Remote AwaitMemory(const End& end) {
  const std::uint64_t high = end.Await(), low = end.Await();
  return {high << 32 | low, end.Await()};
}

// After a mistake: what each end sees, until the active end disconnects.
void NoticesMistake(const End& end, Data& data) {
  end.Await();  // The mistake was made.
  data.State("state");
  data.DeviceEvent("event of the device", 1);
  end.Tell(0);
  end.Event("end");
  data.State("state after the peer's end");
}

void AfterMistake(const End& end, Data& data) {
  data.Sent("completion of the mistake");
  data.State("state");
  data.DeviceEvent("event of the device", 1);
  end.Verb("ibv_post_send after it", data.Send(99));
  data.Sent("send after it");
  end.Tell(0);
  end.Await();
  end.Cm("rdma_disconnect", rdma_disconnect(data.id));
  end.Event("end");
}

void MemoryOfPassive(End& end, const Wants& wants) {
  Data& data = Accepted(end, wants);
  TellMemory(end, data, data.region->rkey);
  data.Received("first receive");
  NoticesMistake(end, data);
  data.Received("second receive", 1, 2);
}

// Passive ends of the scenarios with memory.
void AllRights(End& end) {
  Wants wants;
  wants.rights |= IBV_ACCESS_REMOTE_ATOMIC;
  MemoryOfPassive(end, wants);
}
void NoRights(End& end) {
  Wants wants;
  wants.rights = IBV_ACCESS_LOCAL_WRITE;
  MemoryOfPassive(end, wants);
}
void ReadAndWrite(End& end) {
  MemoryOfPassive(end, {});
}

// An active end: one Send, and then `request` with the memory of the peer.
template <typename Request>
void Mistake(End& end, Request request) {
  Data& data = Connected(end);
  const Remote remote = AwaitMemory(end);
  data.Send(10);
  data.Sent("send");
  end.Verb("ibv_post_send of the mistake", request(data, remote));
  AfterMistake(end, data);
}

void BadRemoteKey(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    return data.Post(11, IBV_WR_RDMA_WRITE, 64, remote.address, remote.key ^ 0x5a00);
  });
}
void BeyondTheRegion(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    return data.Post(11, IBV_WR_RDMA_WRITE, 128, remote.address + 4096 - 64, remote.key);
  });
}
void BadReadKey(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    return data.Post(11, IBV_WR_RDMA_READ, 64, remote.address, remote.key ^ 0x5a00);
  });
}
void WriteWithoutRight(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    return data.Post(11, IBV_WR_RDMA_WRITE, 64, remote.address, remote.key);
  });
}
void ReadWithoutRight(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    return data.Post(11, IBV_WR_RDMA_READ, 64, remote.address, remote.key);
  });
}
void BadLocalKey(End& end) {
  Mistake(end, [](Data& data, Remote) {
    data.local_key ^= 0x5a00;
    const int posted = data.Send(11);
    data.local_key ^= 0x5a00;
    return posted;
  });
}
void BeyondOwnRegion(End& end) {
  Mistake(end, [](Data& data, Remote) { return data.Send(11, 4096 + 64); });
}
void ReadIntoBadLocalKey(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    data.local_key ^= 0x5a00;
    const int posted = data.Post(11, IBV_WR_RDMA_READ, 64, remote.address, remote.key);
    data.local_key ^= 0x5a00;
    return posted;
  });
}
void UnalignedAtomic(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    return data.Post(11, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, remote.address + 4, remote.key);
  });
}
void AtomicWithoutRight(End& end) {
  Mistake(end, [](Data& data, Remote remote) {
    return data.Post(11, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, remote.address, remote.key);
  });
}

// Requests that succeed on devices that have them.
void EveryRequest(End& end) {
  Data& data = Connected(end);
  const Remote remote = AwaitMemory(end);
  data.Send(10);
  data.Sent("send");
  const struct {
    const char* label;
    ibv_wr_opcode opcode;
    std::uint32_t length;
  } requests[] = {{"write", IBV_WR_RDMA_WRITE, 64},
                  {"write of nothing", IBV_WR_RDMA_WRITE, 0},
                  {"read", IBV_WR_RDMA_READ, 64},
                  {"fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
                  {"compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, 8},
                  {"send with immediate", IBV_WR_SEND_WITH_IMM, 64}};
  for (const auto& [label, opcode, length] : requests) {
    const int error = data.Post(20, opcode, length, remote.address, remote.key);
    end.Verb((std::string("ibv_post_send of a ") + label).c_str(), error);
    if (error == 0) data.Sent(label);
  }
  end.Tell(0);
  end.Await();
}

void EveryRequestPassive(End& end) {
  Wants wants;
  wants.rights |= IBV_ACCESS_REMOTE_ATOMIC;
  Data& data = Accepted(end, wants);
  TellMemory(end, data, data.region->rkey);
  data.Received("receive");
  end.Await();
  data.Received("receive with immediate", 1, 2);
  end.Tell(0);
}

void WriteImmediate(End& end) {
  Data& data = Connected(end);
  const Remote remote = AwaitMemory(end);
  const int error = data.Post(20, IBV_WR_RDMA_WRITE_WITH_IMM, 64, remote.address, remote.key);
  end.Verb("ibv_post_send of a write with immediate", error);
  if (error == 0) data.Sent("write with immediate");
  end.Tell(0);
  end.Await();
}

void ShortReceive(End& end) {
  end.Listen();
  rdma_cm_id* id = end.Silently(RDMA_CM_EVENT_CONNECT_REQUEST);
  Data data(end, id);
  data.Receive(1, 16), data.Receive(2, 64);
  rdma_conn_param parameters = Parameters();
  rdma_accept(id, &parameters);
  end.Silently(RDMA_CM_EVENT_ESTABLISHED);
  data.Received("short receive");
  data.Received("next receive");
  NoticesMistake(end, data);
}

// Longer than its receive, or without one.
void MistakenSend(End& end) {
  Data& data = Connected(end);
  data.Send(10);
  AfterMistake(end, data);
}

// The passive end grants few tries, and posts no receive.
void NoReceive(End& end) {
  end.Listen();
  rdma_cm_id* id = end.Silently(RDMA_CM_EVENT_CONNECT_REQUEST);
  Data data(end, id);
  rdma_conn_param parameters = Parameters();
  parameters.rnr_retry_count = 1;
  rdma_accept(id, &parameters);
  end.Silently(RDMA_CM_EVENT_ESTABLISHED);
  NoticesMistake(end, data);
}

void LateReceive(End& end) {
  end.Listen();
  rdma_cm_id* id = end.Silently(RDMA_CM_EVENT_CONNECT_REQUEST);
  Data data(end, id);
  rdma_conn_param parameters = Parameters();
  rdma_accept(id, &parameters);
  end.Silently(RDMA_CM_EVENT_ESTABLISHED);
  end.Await();
  usleep(200000);
  end.Verb("ibv_post_recv", data.Receive(1));
  data.Received("receive", 1, 5);
  data.State("state");
  end.Await();
}

void SendBeforeTheReceive(End& end) {
  Data& data = Connected(end);
  end.Verb("ibv_post_send", data.Send(10));
  end.Tell(0);
  data.Sent("send");
  data.State("state");
  end.Tell(0);
}

// More completions than the queue holds.
void Overflow(End& end) {
  Wants wants;
  wants.completions = 2;
  wants.depth = 64;
  Data& data = Connected(end, wants);
  // Devices make a queue longer than it was wanted.
  for (int i = 0; i < data.sent->cqe + 8; ++i) {
    const int error = data.Post(static_cast<std::uint64_t>(i), IBV_WR_RDMA_WRITE, 0);
    if (error != 0) break;
    usleep(1000);
  }
  usleep(500000);
  ibv_wc completion;
  int polled;
  while ((polled = ibv_poll_cq(data.sent, 1, &completion)) > 0) continue;
  end.Say("poll at the end", std::to_string(polled));
  data.DeviceEvent("event of the device");
  data.State("state");
  end.Tell(0);
}

void OverflowPassive(End& end) {
  Accepted(end);
  end.Await();
}

// A shared receive queue: its limit, and its last receive.
void SharedReceives(End& end) {
  Wants wants;
  wants.shared_receives = true;
  Data& data = Accepted(end, wants);
  ibv_srq_attr limit{};
  limit.srq_limit = 2;
  end.Verb("ibv_modify_srq", ibv_modify_srq(data.shared, &limit, IBV_SRQ_LIMIT));
  end.Tell(0);
  data.Received("receive");
  end.Await();
  data.DeviceEvent("event at the limit");
  ibv_srq_attr found{};
  ibv_query_srq(data.shared, &found);
  end.Say("limit afterwards", std::to_string(found.srq_limit));
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  end.Verb("ibv_modify_qp to ERR", ibv_modify_qp(data.id->qp, &error, IBV_QP_STATE));
  data.DeviceEvent("event of the last receive");
  end.Verb("ibv_destroy_srq in use", ibv_destroy_srq(data.shared));
}

void SendsToShared(End& end) {
  Data& data = Connected(end);
  end.Await();
  data.Send(10);
  data.Sent("send");
  end.Tell(0);
  end.AwaitItsEnd();
}

void Limits(End& end) {
  Wants wants;
  wants.depth = 4;
  Data& data = Connected(end, wants);
  ibv_sge pieces[64];
  for (ibv_sge& piece : pieces)
    piece = {reinterpret_cast<std::uintptr_t>(data.memory.data()), 8, data.local_key};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = pieces;
  request.num_sge = 64;
  request.opcode = IBV_WR_SEND;
  end.Verb("ibv_post_send of 64 pieces", ibv_post_send(data.id->qp, &request, &bad));
  end.Say("bad request of 64 pieces", bad == &request ? "is named" : "is not named");
  request.num_sge = 1;
  pieces[0].length = 4000;
  request.send_flags = IBV_SEND_INLINE;
  end.Verb("ibv_post_send of 4000 bytes inline", ibv_post_send(data.id->qp, &request, &bad));
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  receive.sg_list = pieces;
  receive.num_sge = 64;
  end.Verb("ibv_post_recv of 64 pieces", ibv_post_recv(data.id->qp, &receive, &bad_receive));
  int error = 0;
  for (int i = 0; error == 0 && i < 4096; ++i) error = data.Receive(5);
  end.Verb("ibv_post_recv to a full queue", error);
  error = 0;
  data.send_flags = 0;  // The peer has two receives, so that the queue becomes full.
  for (int i = 0; error == 0 && i < 4096; ++i) error = data.Post(6, IBV_WR_SEND, 0);
  end.Verb("ibv_post_send to a full queue", error);
  end.Tell(0);
}

void LimitsPassive(End& end) {
  Accepted(end);
  end.Await();
}

const Row kRows2[] = {{"every_request", EveryRequestPassive, EveryRequest},
                      {"write_immediate", EveryRequestPassive, WriteImmediate},
                      {"bad_remote_key", ReadAndWrite, BadRemoteKey},
                      {"beyond_the_region", ReadAndWrite, BeyondTheRegion},
                      {"bad_read_key", ReadAndWrite, BadReadKey},
                      {"write_without_right", NoRights, WriteWithoutRight},
                      {"read_without_right", NoRights, ReadWithoutRight},
                      {"bad_local_key", ReadAndWrite, BadLocalKey},
                      {"beyond_own_region", ReadAndWrite, BeyondOwnRegion},
                      {"read_into_bad_key", ReadAndWrite, ReadIntoBadLocalKey},
                      {"unaligned_atomic", AllRights, UnalignedAtomic},
                      {"atomic_without_right", ReadAndWrite, AtomicWithoutRight},
                      {"short_receive", ShortReceive, MistakenSend},
                      {"no_receive", NoReceive, MistakenSend},
                      {"late_receive", LateReceive, SendBeforeTheReceive},
                      {"overflow", OverflowPassive, Overflow},
                      {"shared_receives", SharedReceives, SendsToShared},
                      {"limits", LimitsPassive, Limits},
                      {nullptr, nullptr, nullptr}};

}  // namespace

const Row* const kRequests = kRows2;

}  // namespace nd::verbs_programs
