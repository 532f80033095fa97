// SPDX-License-Identifier: Apache-2.0
// The whole life of a connection: listen, connect, accept, complete, messages, disconnect, close. One thread.
#pragma once

#include <algorithm>
#include <string>

#include "tests/crash/stage.h"

namespace nd::crash {

inline constexpr milliseconds kLifePatience{15'000};

class Life {
 public:
  explicit Life(Stage& stage, milliseconds patience = kLifePatience) : stage_(stage), patience_(patience) {}

  // Every call must return, whichever process is dead. Returns the name of the first call that hangs.
  std::string Play() {
    Actor &a = stage_.app(0), &p = stage_.app(1);
    const std::uint16_t port = stage_.NewPort();
    const Listener l = p.CreateListener();
    const Qp aq = a.CreateQp(), pq = p.CreateQp();
    const Connector ac = a.CreateConnector(), pc = p.CreateConnector();
    // An application whose broker died before it had its objects cannot continue.
    const bool active = aq && ac, passive = l && pq && pc;
    Outcome connect, accept, complete, notify, bye;
    bool listens = false, accepting = false, connected = false;
    if (passive) {
      (void)l.Bind(stage_.address(1, port));
      listens = l.Listen().ok();
    }
    if (active) {
      (void)ac.Bind(stage_.address(0, 0));
      connect = ac.Connect(aq, stage_.address(1, port));
    }
    if (listens) {
      // A request may not arrive any more; the call must still end.
      const Outcome get = l.GetConnectionRequest(pc);
      Status got;
      Eventually(
          [&] {
            got = get.Wait(milliseconds(1));
            return !got.pending() || !active || !connect.pending();
          },
          patience_);
      if (got.pending()) {
        (void)l.Cancel();
        if (Hangs(get, "GetConnectionRequest")) return hung_;
      }
      accept = pc.Accept(pq);
      accepting = true;
    }
    if (active) {
      if (Hangs(connect, "Connect")) return hung_;
      complete = ac.CompleteConnect();
      if (Hangs(complete, "CompleteConnect")) return hung_;
      connected = complete.Wait().ok();
      if (!connected && Hangs(ac.Close(), "Close")) return hung_;
    }
    if (accepting && Hangs(accept, "Accept")) return hung_;
    if (connected && accepting && accept.Wait().ok()) {
      failed_ = Traffic(a, aq, p, pq);
      notify = pc.NotifyDisconnect();
      bye = ac.Disconnect();
      if (Hangs(bye, "Disconnect of A")) return hung_;
      // A broker that dies during Disconnect leaves the connection established; Close ends it in any case.
      if (!bye.Wait().ok() && Hangs(ac.Close(), "Close")) return hung_;
      if (Hangs(notify, "NotifyDisconnect")) return hung_;
      if (Hangs(pc.Disconnect(), "Disconnect of P")) return hung_;
    }
    for (const Object& object : {Object(ac), Object(pc), Object(l), Object(aq), Object(pq)}) {
      if (object && Hangs(object.Close(), "Close")) return hung_;
    }
    return "";
  }
  const std::string& failed() const { return failed_; }

 private:
  bool Hangs(const Outcome& outcome, const char* what) {
    if (!outcome.inline_status().pending()) return false;
    if (!outcome.Wait(patience_).pending()) return false;
    hung_ = std::string(what) + " hangs";
    return true;
  }
  Stage& stage_;
  const milliseconds patience_;
  std::string hung_, failed_;
};

// A process that dies or whose calls fail.
struct Victim {
  const char* name;
  Who who;
};
inline constexpr Victim kVictims[] = {
    {"Active", kA}, {"Passive", kP}, {"BrokerA", kBrokerA}, {"BrokerP", kBrokerP}};

}  // namespace nd::crash
