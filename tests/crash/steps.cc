// SPDX-License-Identifier: Apache-2.0
// One function for each step from listening to disconnect; later steps begin with earlier ones.
#include "tests/crash/steps.h"

namespace nd::crash {
namespace {

using std::string;

string Want(const Status& status, const char* what) {
  return status.ok() ? "" : string(what) + ": " + status.ToString();
}
string Want(bool holds, const char* what) {
  return holds ? "" : what;
}

string Nothing(Stage&, Scene&) {
  return "";
}

string Bound(Stage& stage, Scene& scene) {
  scene.active_port = stage.NewPort();
  scene.a = stage.app(0).CreateConnector();
  scene.aq = stage.app(0).CreateQp();
  return Want(scene.a.Bind(stage.address(0, scene.active_port)), "Bind");
}

string Listening(Stage& stage, Scene& scene) {
  scene.passive_port = stage.NewPort();
  scene.l = stage.app(1).CreateListener();
  scene.pq = stage.app(1).CreateQp();
  scene.p = stage.app(1).CreateConnector();
  if (string bad = Want(scene.l.Bind(stage.address(1, scene.passive_port)), "Bind"); !bad.empty()) return bad;
  return Want(scene.l.Listen(), "Listen");
}

string Waiting(Stage& stage, Scene& scene) {
  if (string bad = Listening(stage, scene); !bad.empty()) return bad;
  scene.get = scene.l.GetConnectionRequest(scene.p);
  return Want(scene.get->pending(), "GetConnectionRequest does not wait");
}

string Ready(Stage& stage, Scene& scene) {
  if (string bad = Listening(stage, scene); !bad.empty()) return bad;
  return Bound(stage, scene);
}

string Queued(Stage& stage, Scene& scene) {
  if (string bad = Ready(stage, scene); !bad.empty()) return bad;
  scene.connect = scene.a.Connect(scene.aq, stage.address(1, scene.passive_port));
  return Want(
      Eventually([&] { return stage.broker(1).Admin("ListListeners").Number("items.0.backlog_used") == 1; }),
      "the request does not reach the listener");
}

string Delivered(Stage& stage, Scene& scene) {
  if (string bad = Queued(stage, scene); !bad.empty()) return bad;
  return Want(scene.l.GetConnectionRequest(scene.p).Wait(), "GetConnectionRequest");
}

string Replied(Stage& stage, Scene& scene) {
  if (string bad = Delivered(stage, scene); !bad.empty()) return bad;
  scene.accept = scene.p.Accept(scene.pq);
  return Want(scene.connect->Wait(), "Connect");
}

string Established(Stage& stage, Scene& scene) {
  if (string bad = Replied(stage, scene); !bad.empty()) return bad;
  scene.complete = scene.a.CompleteConnect();
  if (string bad = Want(scene.complete->Wait(), "CompleteConnect"); !bad.empty()) return bad;
  if (string bad = Want(scene.accept->Wait(), "Accept"); !bad.empty()) return bad;
  scene.up = true;
  scene.notify_a = scene.a.NotifyDisconnect();
  scene.notify_p = scene.p.NotifyDisconnect();
  return "";
}

// Starts a call in the background and waits until `who` is stopped at its hold point.
string HoldDuring(Stage& stage, Scene& scene, Who who, Point point, bool after, std::function<void()> begin,
                  int nth = 1) {
  stage.hold(who).Arm(point, after, nth);
  scene.background.emplace_back(std::move(begin));
  return Want(stage.hold(who).WaitReached(milliseconds(5000)), "the hold point is not reached");
}

template <bool kAfter>
string RequestOnWire(Stage& stage, Scene& scene) {
  if (string bad = Ready(stage, scene); !bad.empty()) return bad;
  return HoldDuring(stage, scene, kBrokerA, Point::kMpaRequest, kAfter,
                    [&] { scene.connect = scene.a.Connect(scene.aq, stage.address(1, scene.passive_port)); });
}
template <bool kAfter>
string ReplyOnWire(Stage& stage, Scene& scene) {
  if (string bad = Delivered(stage, scene); !bad.empty()) return bad;
  return HoldDuring(stage, scene, kBrokerP, Point::kMpaReply, kAfter,
                    [&] { scene.accept = scene.p.Accept(scene.pq); });
}
template <bool kAfter>
string RtrOnWire(Stage& stage, Scene& scene) {
  if (string bad = Replied(stage, scene); !bad.empty()) return bad;
  return HoldDuring(stage, scene, kBrokerA, Point::kRtr, kAfter,
                    [&] { scene.complete = scene.a.CompleteConnect(); });
}
// Stops the broker of that side while it sends the descriptors of that side; one broker sends to both.
template <Who kWho, bool kAfter, int kNth = 1>
string HandOver(Stage& stage, Scene& scene) {
  if (string bad = Replied(stage, scene); !bad.empty()) return bad;
  return HoldDuring(
      stage, scene, kWho, Point::kSendDescriptors, kAfter,
      [&] { scene.complete = scene.a.CompleteConnect(); }, kNth);
}
template <Who kWho, bool kAfter>
string Acknowledged(Stage& stage, Scene& scene) {
  if (string bad = Replied(stage, scene); !bad.empty()) return bad;
  return HoldDuring(stage, scene, kWho, Point::kAck, kAfter,
                    [&] { scene.complete = scene.a.CompleteConnect(); });
}

// P is stopped, and the request of A waits for it halfway.
template <RequestType kType>
string Transferring(Stage& stage, Scene& scene) {
  if (string bad = Established(stage, scene); !bad.empty()) return bad;
  scene.target =
      stage.app(1).Allocate(16 << 20, kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite, false);
  const Memory source = stage.app(0).Allocate(
      16 << 20, kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink, false);
  if (kType == RequestType::kSend) {
    if (string bad =
            Want(scene.pq.Post(RequestType::kReceive, 1, {{scene.target.id(), 0, 16 << 20}}), "Receive");
        !bad.empty()) {
      return bad;
    }
    ++scene.posted_p;
  }
  stage.Pause(kP);
  ++scene.posted_a;
  // A Send with a token would be a Send with Invalidate.
  const bool one_sided = kType != RequestType::kSend;
  return Want(scene.aq.Post(kType, 1, {{source.id(), 0, 16 << 20}}, one_sided ? scene.target.address : 0,
                            one_sided ? scene.target.token : 0),
              "posting");
}

string QueueFull(Stage& stage, Scene& scene) {
  if (string bad = Established(stage, scene); !bad.empty()) return bad;
  for (std::uint32_t i = 0; i < 64; ++i) {
    if (string bad = Want(scene.pq.Receive(i, 0, 1024), "Receive"); !bad.empty()) return bad;
    ++scene.posted_p;
  }
  stage.Pause(kP);
  // As many as the queue holds; P has posted as many receives.
  while (scene.posted_a < 64) {
    if (string bad = Want(scene.aq.Send(scene.posted_a, 0, 1024), "Send"); !bad.empty()) return bad;
    ++scene.posted_a;
  }
  return "";
}

string OneDisconnecting(Stage& stage, Scene& scene) {
  if (string bad = Established(stage, scene); !bad.empty()) return bad;
  stage.Pause(kP);
  scene.disconnect_a = scene.a.Disconnect();
  return Want(scene.disconnect_a->inline_status().pending(), "Disconnect does not wait");
}

string BothDisconnecting(Stage& stage, Scene& scene) {
  if (string bad = Established(stage, scene); !bad.empty()) return bad;
  stage.Pause(kBrokerA | kBrokerP);
  scene.disconnect_a = scene.a.Disconnect();
  scene.disconnect_p = scene.p.Disconnect();
  return "";
}

template <bool kAfter>
string GoodbyeOnWire(Stage& stage, Scene& scene) {
  if (string bad = Established(stage, scene); !bad.empty()) return bad;
  return HoldDuring(stage, scene, kA, Point::kGoodbye, kAfter,
                    [&] { scene.disconnect_a = scene.a.Disconnect(); });
}

string Disconnected(Stage& stage, Scene& scene) {
  if (string bad = Established(stage, scene); !bad.empty()) return bad;
  scene.up = false;
  scene.disconnect_a = scene.a.Disconnect();
  if (string bad = Want(scene.disconnect_a->Wait(), "Disconnect"); !bad.empty()) return bad;
  scene.disconnect_p = scene.p.Disconnect();
  return Want(scene.disconnect_p->Wait(), "Disconnect of P");
}

constexpr Step kSteps[] = {
    {"nothing open", Nothing},
    {"bound", Bound},
    {"listening", Listening},
    {"waiting for a request", Waiting},
    {"before the request leaves", RequestOnWire<false>, false},
    {"request sent", RequestOnWire<true>, false},
    {"request queued", Queued},
    {"request delivered", Delivered, true, true, true},
    {"before the reply leaves", ReplyOnWire<false>, false},
    {"reply sent", ReplyOnWire<true>, false},
    {"accepted, not completed", Replied, true, true, true},
    {"before the ready-to-receive frame", RtrOnWire<false>, false},
    {"ready-to-receive frame sent", RtrOnWire<true>, false},
    {"before descriptors leave for A", HandOver<kBrokerA, false>, false, true, true},
    {"descriptors sent to A", HandOver<kBrokerA, true>, false},
    {"before descriptors leave for P", HandOver<kBrokerP, false>, false},
    {"descriptors sent to P", HandOver<kBrokerP, true>, false},
    {"before the first descriptors leave", HandOver<kBrokerA, false>, true, false, true},
    {"first descriptors sent", HandOver<kBrokerA, true>, true, false},
    {"before the second descriptors leave", HandOver<kBrokerA, false, 2>, true, false},
    {"both descriptors sent", HandOver<kBrokerA, true, 2>, true, false},
    {"before A acknowledges", Acknowledged<kA, false>},
    {"A acknowledged", Acknowledged<kA, true>},
    {"before P acknowledges", Acknowledged<kP, false>},
    {"P acknowledged", Acknowledged<kP, true>},
    {"established", Established, true, true, true},
    {"in the middle of a Write", Transferring<RequestType::kWrite>},
    {"in the middle of a Read", Transferring<RequestType::kRead>},
    {"in the middle of a Send", Transferring<RequestType::kSend>},
    {"send queue full", QueueFull},
    {"one side disconnecting", OneDisconnecting, true, true, true},
    {"both sides disconnecting", BothDisconnecting},
    {"before the goodbye leaves", GoodbyeOnWire<false>, false},
    {"goodbye sent", GoodbyeOnWire<true>, false},
    {"disconnected, not closed", Disconnected},
};

}  // namespace

std::span<const Step> Steps() {
  return kSteps;
}

void Scene::Join() {
  for (std::thread& thread : background) thread.join();
  background.clear();
}

}  // namespace nd::crash
