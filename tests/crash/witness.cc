// SPDX-License-Identifier: Apache-2.0
// The rules are the same for every step, so that a new step needs no expectations of its own.
#include "tests/crash/witness.h"

#include "tests/crash/table.h"

namespace nd::crash {
namespace {

// TCP and the fd lane report a death at once. The limit is long, for a busy machine.
constexpr milliseconds kPatience{10'000};

}  // namespace

Witness::Witness(Stage& stage, Scene& scene, const std::string& step, unsigned victims)
    : stage_(stage), scene_(scene), step_(step), victim_(Name(victims, stage.mode())), victims_(victims) {}

Status Witness::Await(const char* side, const char* operation, const Outcome& outcome,
                      const Connector* connector) {
  Status status = outcome.Wait(kPatience);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - killed_;
  if (status.pending()) {
    Fault(std::string(side) + "'s " + operation + " hangs\n" + stage_.Dump());
    return status;
  }
  std::string seen = std::string(side) + ": " + operation + " = " + std::string(nd::Name(status.code()));
  if (status.detail() != Detail::kNone) seen += " (" + std::string(nd::Name(status.detail())) + ")";
  if (connector != nullptr) seen += ", " + std::string(nd::Name(connector->disconnect_reason()));
  Table::Get().Add({stage_.mode().name(), step_, victim_, seen, took.count()});
  return status;
}

void Witness::HearActive() {
  if (!scene_.connect) return;
  if (!scene_.complete) {
    if (!Await("A", "Connect", *scene_.connect).ok()) return;
    scene_.complete = scene_.a.CompleteConnect();
  }
  if (!scene_.up && !Await("A", "CompleteConnect", *scene_.complete).ok()) return;
  up_a_ = true;
  if (scene_.disconnect_a) (void)Await("A", "Disconnect", *scene_.disconnect_a);
}

void Witness::HearPassive() {
  if (scene_.get && !stage_.alive(kBrokerP) && !scene_.get->inline_status().ok()) {
    (void)Await("P", "GetConnectionRequest", *scene_.get);
  }
  if (!scene_.accept) return;
  if (!scene_.up && !Await("P", "Accept", *scene_.accept).ok()) return;
  up_p_ = true;
  if (scene_.disconnect_p) (void)Await("P", "Disconnect", *scene_.disconnect_p);
}

// Every posted request completes exactly once; none may hang when the peer is dead.
void Witness::HearQueues() {
  const auto drain = [&](const char* side, const Qp& qp, std::uint32_t posted) {
    for (std::uint32_t i = 0; i < posted; ++i) {
      const Work work = qp.cq.Next(kPatience);
      if (work.status == StatusCode::kPending) {
        return Fault(std::string(side) + ": " + std::to_string(posted) + " requests posted, only " +
                     std::to_string(i) + " completed\n" + stage_.Dump());
      }
      // Between two living processes every request must succeed.
      if (up_a_ && up_p_ && !scene_.disconnect_a && work.status != StatusCode::kSuccess) {
        Fault(std::string(side) + ": request " + std::to_string(work.context) +
              " of a living connection ended " + std::string(nd::Name(work.status)));
      }
    }
    const std::vector<Work> more = qp.cq.Poll();
    if (!more.empty()) {
      Fault(std::string(side) + ": more completions than requests, one of them " +
            std::string(nd::Name(more.front().status)));
    }
  };
  if (stage_.alive(kA) && scene_.posted_a != 0) drain("A", scene_.aq, scene_.posted_a);
  if (stage_.alive(kP) && scene_.posted_p != 0) {
    // A living peer may not have filled all receives.
    drain("P", scene_.pq, scene_.posted_p);
  }
}

std::vector<std::string> Witness::Hear() {
  if (stage_.alive(kA)) HearActive();
  if (stage_.alive(kP)) HearPassive();
  const bool saying_goodbye = scene_.disconnect_a || scene_.disconnect_p;
  if (saying_goodbye) {
    // A side that has not disconnected is notified of the disconnect or the death of the other.
    if (up_a_ && !scene_.disconnect_a) (void)Await("A", "NotifyDisconnect", *scene_.notify_a, &scene_.a);
    if (up_p_ && !scene_.disconnect_p) (void)Await("P", "NotifyDisconnect", *scene_.notify_p, &scene_.p);
    HearQueues();
    return faults_;
  }
  // Either the connection is established on both sides, or each side that saw it established is notified of
  // its end.
  if (up_a_ && up_p_) {
    HearQueues();
    const std::string traffic = Traffic(stage_.app(0), scene_.aq, stage_.app(1), scene_.pq);
    if (!traffic.empty()) Fault("both sides are connected, but " + traffic);
    outlived_ = true;
    return faults_;
  }
  const auto lost = [&](const char* side, Connector& connector, std::optional<Outcome>& notify) {
    // A NotifyDisconnect that was pending when the broker died ended with the broker; the queue pair knows of
    // the end without it.
    const bool stale = notify && !stage_.alive(side[0] == 'A' ? kBrokerA : kBrokerP);
    if (!notify || stale) notify = connector.NotifyDisconnect();
    const Status status = Await(side, "NotifyDisconnect", *notify, &connector);
    if (!status.ok() && !(status == StatusCode::kDeviceRemoved)) {
      Fault(std::string(side) + "'s NotifyDisconnect ended " + status.ToString());
    }
    if (status.ok() && connector.disconnect_reason() == DisconnectReason::kPeerDisconnected) {
      Fault(std::string(side) + " was told that its dead peer said goodbye");
    }
  };
  if (up_a_) lost("A", scene_.a, scene_.notify_a);
  if (up_p_) lost("P", scene_.p, scene_.notify_p);
  HearQueues();
  return faults_;
}

std::vector<std::string> Witness::HearAgain() {
  faults_.clear();
  if (!outlived_) return faults_;
  const std::string traffic = Traffic(stage_.app(0), scene_.aq, stage_.app(1), scene_.pq);
  if (!traffic.empty()) Fault("after the broker is back: " + traffic);
  for (int side = 0; side < 2; ++side) {
    const std::uint16_t port = side == 0 ? scene_.active_port : scene_.passive_port;
    const Address local = stage_.address(side, port);
    const bool listed = Eventually([&] {
      const Flat list = stage_.broker(side).Admin("ListConnections");
      for (std::size_t i = 0; i < list.Count("items"); ++i) {
        const std::string row = "items." + std::to_string(i) + ".";
        if (list[row + "state"] == "Connected" && list.Number(row + "local.port") == port) return true;
      }
      return false;
    });
    if (!listed) Fault("the connection of " + local.ToString() + " is not in its broker's books again");
    ActorOptions options;
    options.broker = stage_.broker(side).directory();
    options.adapter = "soft0";
    options.application = "thief";
    Actor thief(options);
    (void)thief.Open();
    const Status stolen = thief.CreateConnector().Bind(local);
    if (!(stolen == StatusCode::kSharingViolation)) {
      Fault("somebody else could bind " + local.ToString() + ": " + stolen.ToString());
    }
    thief.Kill();
  }
  return faults_;
}

}  // namespace nd::crash
