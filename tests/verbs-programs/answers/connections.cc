// SPDX-License-Identifier: Apache-2.0
// Scenarios of rdma_cm: how connections begin and end.
#include <arpa/inet.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tests/verbs-programs/answers/end.h"

namespace nd::verbs_programs {
namespace {

void Disconnects(End& end, rdma_cm_id* id, const char* label) {
  end.Cm(label, rdma_disconnect(id));
}

// A connection that carries one message each way. Its first end disconnects, and the other one answers.
void Exchange(End& end, Data& data, bool active) {
  if (active) end.Verb("ibv_post_send", data.Send(10));
  data.Received("receive");
  if (!active) end.Verb("ibv_post_send", data.Send(10));
  data.Sent("send");
}

void ConnectPassive(End& end) {
  rdma_cm_id* listener = end.Listen();
  rdma_cm_id* id = end.Event("request");
  if (id == nullptr) return;
  Data data(end, id);
  data.State("state before accept");
  data.Receive(1), data.Receive(2), data.Receive(3);
  rdma_conn_param parameters = Parameters("welcome");
  end.Cm("rdma_accept", rdma_accept(id, &parameters));
  end.Event("answer");
  data.State("state");
  end.Say("connected",
          id->qp->qp_type == IBV_QPT_RC && rdma_get_peer_addr(id)->sa_family == AF_INET ? "RC" : "no");
  Exchange(end, data, false);
  end.Event("end");
  data.State("state after the peer's end");
  Disconnects(end, id, "rdma_disconnect");
  data.Received("flushed", 2);
  data.State("state at last");
  rdma_destroy_qp(id);
  end.Cm("rdma_destroy_id", rdma_destroy_id(id));
  end.Cm("rdma_destroy_id of the listener", rdma_destroy_id(listener));
}

void ConnectActive(End& end) {
  rdma_cm_id* id = end.NewIdentifier();
  sockaddr_storage address = end.Address(end.place().address, static_cast<std::uint16_t>(end.Await()));
  end.Cm("rdma_resolve_addr", rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 5000));
  end.Event("address");
  end.Cm("rdma_resolve_route", rdma_resolve_route(id, 5000));
  end.Event("route");
  Data data(end, id);
  data.State("state before connect");
  data.Receive(1), data.Receive(2), data.Receive(3);
  rdma_conn_param parameters = Parameters("hello");
  end.Cm("rdma_connect", rdma_connect(id, &parameters));
  end.Event("answer");
  data.State("state");
  Exchange(end, data, true);
  Disconnects(end, id, "rdma_disconnect");
  end.Event("end");
  data.Received("flushed", 2);
  data.State("state at last");
  Disconnects(end, id, "rdma_disconnect again");
  end.Verb("ibv_post_send after the end", data.Send(20));
  data.Sent("send after the end");
  end.Verb("ibv_post_recv after the end", data.Receive(21));
  data.Received("receive after the end");
  rdma_destroy_qp(id);
  end.Cm("rdma_destroy_id", rdma_destroy_id(id));
}

void PassiveEndsFirst(End& end) {
  Data& data = Accepted(end);
  data.Received("receive");
  Disconnects(end, data.id, "rdma_disconnect");
  end.Event("end");
  data.Received("flushed");
}

void ActiveEndsSecond(End& end) {
  Data& data = Connected(end);
  data.Receive(1);
  data.Send(2);
  data.Sent("send");
  end.Event("end");
  data.State("state");
  Disconnects(end, data.id, "rdma_disconnect");
  data.Received("flushed");
}

void RejectPassive(End& end) {
  end.Listen();
  rdma_cm_id* id = end.Event("request");
  if (id == nullptr) return;
  end.Cm("rdma_reject", rdma_reject(id, "no, thank you", 13));
  end.Cm("rdma_reject again", rdma_reject(id, "no", 2));
  end.Cm("rdma_destroy_id", rdma_destroy_id(id));
  end.Await();
}

void RejectActive(End& end) {
  rdma_cm_id* id = end.Resolve(static_cast<std::uint16_t>(end.Await()));
  Data data(end, id);
  data.Receive(1);
  rdma_conn_param parameters = Parameters("please");
  end.Cm("rdma_connect", rdma_connect(id, &parameters));
  end.Event("answer");
  data.State("state");
  data.Received("receive", 1, 1);
  end.Cm("rdma_connect again", rdma_connect(id, &parameters));
  end.Tell(0);
}

void NoListenerPassive(End& end) {
  rdma_cm_id* id = end.NewIdentifier();
  sockaddr_storage address = end.Address(end.place().address, 0);
  end.Cm("rdma_bind_addr", rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)));
  end.Tell(ntohs(rdma_get_src_port(id)));
  end.Await();
  end.Cm("rdma_destroy_id", rdma_destroy_id(id));
  end.Tell(0);
  end.Await();
}

void NoListenerActive(End& end) {
  const auto port = static_cast<std::uint16_t>(end.Await());
  for (const char* label : {"answer of a port that does not listen", "answer of a port that nobody has"}) {
    rdma_cm_id* id = end.Resolve(port);
    Data data(end, id);
    rdma_conn_param parameters = Parameters();
    end.Cm("rdma_connect", rdma_connect(id, &parameters));
    end.Event(label);
    data.State("state");
    end.Tell(0);
    if (std::strstr(label, "nobody") == nullptr) end.Await();
  }
}

void WrongAddress(End& end) {
  const struct {
    const char* label;
    std::string address;
  } places[] = {{"a host that is absent", end.place().absent},
                {"an address without route", "192.0.2.1"},
                {"the unspecified address", "0.0.0.0"},
                {"a broadcast address", "255.255.255.255"}};
  for (const auto& [label, text] : places) {
    rdma_cm_id* id = end.NewIdentifier();
    sockaddr_storage address = end.Address(text, 7471);
    const int failed = rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 3000);
    end.Cm((std::string("rdma_resolve_addr of ") + label).c_str(), failed);
    if (failed == 0) end.Event((std::string("event for ") + label).c_str());
    rdma_destroy_id(id);
  }
  rdma_cm_id* id = end.NewIdentifier();
  sockaddr_storage foreign = end.Address("192.0.2.1", 0), address = end.Address(end.place().address, 7471);
  const int failed = rdma_resolve_addr(id, reinterpret_cast<sockaddr*>(&foreign),
                                       reinterpret_cast<sockaddr*>(&address), 3000);
  end.Cm("rdma_resolve_addr from a foreign address", failed);
  if (failed == 0) end.Event("event for a foreign address");
}

void Backlog(End& end) {
  rdma_cm_id* listener = end.Listen(1);
  end.Await();
  end.Event("request");
  rdma_destroy_id(listener);
  end.Tell(0);
  end.Await();
}

void BacklogActive(End& end) {
  const auto port = static_cast<std::uint16_t>(end.Await());
  rdma_cm_id* ids[3];
  for (rdma_cm_id*& id : ids) {
    id = end.Resolve(port);
    new Data(end, id);
    rdma_conn_param parameters = Parameters();
    end.Cm("rdma_connect", rdma_connect(id, &parameters));
    end.Event("answer", -1, 2);
  }
  end.Tell(0);
  end.Await();
  end.Tell(0);
}

void PassiveDies(End& end) {
  Accepted(end).Received("receive");
  end.Await();
  kill(getpid(), SIGKILL);
}

void SurvivesPassive(End& end) {
  Data& data = Connected(end);
  data.Receive(1);
  data.Send(2);
  data.Sent("send");
  end.Tell(0);
  end.Event("end");
  data.State("state");
  Disconnects(end, data.id, "rdma_disconnect");
  data.Received("flushed");
  data.State("state at last");
}

void SurvivesActive(End& end) {
  Data& data = Accepted(end);
  data.Received("receive");
  end.Tell(0);
  end.Event("end");
  data.State("state");
  Disconnects(end, data.id, "rdma_disconnect");
  data.Received("flushed");
}

void ActiveDies(End& end) {
  Data& data = Connected(end);
  data.Send(2);
  data.Sent("send");
  end.Await();
  kill(getpid(), SIGKILL);
}

// The active end dies while its request waits for an answer.
void AcceptsADeadOne(End& end) {
  end.Listen();
  rdma_cm_id* id = end.Event("request");
  if (id == nullptr) return;
  Data data(end, id);
  data.Receive(1);
  end.Tell(0);
  end.AwaitItsEnd();
  sleep(1);
  rdma_conn_param parameters = Parameters();
  end.Cm("rdma_accept", rdma_accept(id, &parameters));
  end.Event("answer");
  data.State("state");
  end.Cm("rdma_destroy_id of the dead one", (rdma_destroy_qp(id), rdma_destroy_id(id)));
}

void DiesBeforeTheAnswer(End& end) {
  rdma_cm_id* id = end.Resolve(static_cast<std::uint16_t>(end.Await()));
  Data data(end, id);
  rdma_conn_param parameters = Parameters();
  end.Cm("rdma_connect", rdma_connect(id, &parameters));
  end.Await();
  kill(getpid(), SIGKILL);
}

// The listener goes away while a request of which it has told waits for an answer, and while one waits of
// which it has not told.
void ListenerLeaves(End& end) {
  rdma_cm_id* listener = end.Listen();
  rdma_cm_id* id = end.Event("request");
  if (id == nullptr) return;
  end.Cm("rdma_destroy_id of the listener", rdma_destroy_id(listener));
  Data data(end, id);
  data.Receive(1);
  rdma_conn_param parameters = Parameters();
  end.Cm("rdma_accept", rdma_accept(id, &parameters));
  end.Event("answer");
  data.Received("receive");
  end.Await();
}

void ConnectsToOneThatLeaves(End& end) {
  Data& data = Connected(end);
  data.Send(2);
  data.Sent("send");
  end.Tell(0);
}

// The listener is destroyed while requests wait of which the program has not read.
void ForgetsRequests(End& end) {
  rdma_cm_id* listener = end.Listen();
  end.Await();
  end.Cm("rdma_destroy_id of the listener", rdma_destroy_id(listener));
  end.Await();
}

void IsForgotten(End& end) {
  const auto port = static_cast<std::uint16_t>(end.Await());
  for (int i = 0; i < 3; ++i) {
    rdma_cm_id* id = end.Resolve(port);
    new Data(end, id);
    rdma_conn_param parameters = Parameters();
    end.Cm("rdma_connect", rdma_connect(id, &parameters));
  }
  sleep(1);  // Until the requests have arrived.
  end.Tell(0);
  for (int i = 0; i < 3; ++i) end.Event("answer");
  end.Tell(0);
}

// A request that the passive end destroys without an answer.
void Ignores(End& end) {
  end.Listen();
  rdma_cm_id* id = end.Event("request");
  if (id == nullptr) return;
  end.Cm("rdma_destroy_id", rdma_destroy_id(id));
  end.Await();
}

void IsIgnored(End& end) {
  rdma_cm_id* id = end.Resolve(static_cast<std::uint16_t>(end.Await()));
  Data data(end, id);
  rdma_conn_param parameters = Parameters();
  end.Cm("rdma_connect", rdma_connect(id, &parameters));
  end.Event("answer");
  end.Tell(0);
}

const Row kRows[] = {{"connect", ConnectPassive, ConnectActive},
                     {"passive_ends_first", PassiveEndsFirst, ActiveEndsSecond},
                     {"reject", RejectPassive, RejectActive},
                     {"no_listener", NoListenerPassive, NoListenerActive},
                     {"wrong_address", nullptr, WrongAddress},
                     {"backlog", Backlog, BacklogActive},
                     {"passive_dies", PassiveDies, SurvivesPassive},
                     {"active_dies", SurvivesActive, ActiveDies},
                     {"dies_before_the_answer", AcceptsADeadOne, DiesBeforeTheAnswer},
                     {"listener_leaves", ListenerLeaves, ConnectsToOneThatLeaves},
                     {"forgotten", ForgetsRequests, IsForgotten},
                     {"ignored", Ignores, IsIgnored},
                     {nullptr, nullptr, nullptr}};

}  // namespace

const Row* const kConnections = kRows;

}  // namespace nd::verbs_programs
