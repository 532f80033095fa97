// SPDX-License-Identifier: Apache-2.0
// Seeds of fz_session: messages of clients in the order of docs/architecture.md, and in wrong orders.
#include "ndbroker/v1/session.pb.h"
#include "tests/fuzz/seeds.h"

namespace nd::fuzz {
namespace {

namespace pb = ::ndbroker::v1;

// Stands for the handle of the newest completion; see fz_session.cc.
constexpr std::uint64_t kNewest = 1;

void Set(pb::Address* address, unsigned last, unsigned port) {
  address->set_family(4);
  const char ip[] = {10, 0, 0, static_cast<char>(last)};
  address->set_ip(std::string(ip, 4));
  address->set_port(port);
}

class Story {
 public:
  template <typename Fill>
  Story& Send(unsigned who, Fill fill) {
    pb::ClientMessage message;
    message.set_op_id(1000);
    fill(message);
    return Put(who, message.SerializeAsString());
  }
  Story& World(unsigned act, unsigned argument) {
    return Put(act, std::string(1, static_cast<char>(argument)));
  }
  Story& Put(unsigned who, std::string_view bytes) {
    seed_.U8(who).Little16(static_cast<unsigned>(bytes.size())).Text(bytes);
    return *this;
  }

  Story& QueuePair(unsigned who, std::uint64_t adapter) {
    return Send(who, [&](auto& m) {
      m.mutable_create_queue_pair()->set_adapter(adapter);
      m.mutable_create_queue_pair()->set_receive_queue_depth(16);
      m.mutable_create_queue_pair()->set_initiator_queue_depth(16);
    });
  }
  Story& Connector(unsigned who, std::uint64_t adapter) {
    return Send(who, [&](auto& m) { m.mutable_create_connector()->set_adapter(adapter); });
  }
  Story& Bind(unsigned who, std::uint64_t handle, unsigned port) {
    return Send(who, [&](auto& m) {
      m.mutable_bind()->set_handle(handle);
      Set(m.mutable_bind()->mutable_local(), 1, port);
    });
  }
  // Makes a listener on 7000; the newest handle is that of the listener.
  Story& Listen(unsigned who, bool events = false) {
    Send(who, [&](auto& m) { m.mutable_create_listener()->set_adapter(kNewest); });
    return Send(who, [&](auto& m) {
      m.mutable_listen()->set_listener(kNewest);
      m.mutable_listen()->set_backlog(2);
      Set(m.mutable_listen()->mutable_local(), 1, 7000);
      m.mutable_listen()->set_connect_events(events);
    });
  }
  Story& Connect(unsigned who, std::uint64_t connector, std::uint64_t queue_pair,
                 std::string_view data = "hello") {
    return Send(who, [&](auto& m) {
      pb::Connect& op = *m.mutable_connect();
      op.set_connector(connector);
      op.set_queue_pair(queue_pair);
      Set(op.mutable_remote(), 1, 7000);
      op.mutable_limits()->set_inbound(4);
      op.mutable_limits()->set_outbound(4);
      op.set_private_data(data.data(), data.size());
      op.set_private_data_length(static_cast<std::uint32_t>(data.size()));
    });
  }
  Story& Get(unsigned who, std::uint64_t listener, std::uint64_t connector) {
    return Send(who, [&](auto& m) {
      m.mutable_get_connection_request()->set_listener(listener);
      m.mutable_get_connection_request()->set_connector(connector);
    });
  }
  Story& Accept(unsigned who, std::uint64_t connector, std::uint64_t queue_pair) {
    return Send(who, [&](auto& m) {
      m.mutable_accept()->set_connector(connector);
      m.mutable_accept()->set_queue_pair(queue_pair);
      m.mutable_accept()->mutable_limits()->set_inbound(4);
      m.mutable_accept()->set_disconnect_event(true);
    });
  }
  Story& Complete(unsigned who, std::uint64_t connector) {
    return Send(who, [&](auto& m) { m.mutable_complete_connect()->set_connector(connector); });
  }
  // Client 0 listens, client 1 connects; up to Accept. Newest handles of client 0: queue pair, connector,
  // listener; of client 1: connector, queue pair.
  Story& Meet() {
    Listen(0).Connector(0, 2).QueuePair(0, 3);
    QueuePair(1, kNewest).Connector(1, 2).Bind(1, kNewest, 6000).Connect(1, kNewest, 2);
    return Get(0, 3, 2).Accept(0, 2, kNewest);
  }
  const Seed& seed() const { return seed_; }
  Story() { seed_.U8(0); }

 private:
  Seed seed_;
};

}  // namespace

void AddSessionSeeds(SeedWriter& writer) {
  const auto add = [&](std::string_view name, const Story& story) {
    writer.Add("session", name, story.seed());
  };
  constexpr unsigned kDie = 0xF0, kAdvance = 0xF1, kCut = 0xF2, kHold = 0xF3, kSilent = 0xF4, kRelease = 0xF5,
                     kFail = 0xF6;
  const auto close = [](Story& story, unsigned who, std::uint64_t handle, bool ndk = false) {
    story.Send(who, [&](auto& m) {
      m.mutable_close()->set_handle(handle);
      m.mutable_close()->set_ndk(ndk);
    });
  };
  Story whole;
  whole.Meet().Complete(1, kNewest);
  whole.Send(1, [](auto& m) { m.mutable_get_read_limits()->set_connector(kNewest); });
  whole.Send(1, [](auto& m) { m.mutable_get_private_data()->set_connector(kNewest); });
  whole.Send(1, [](auto& m) { m.mutable_get_local_address()->set_handle(kNewest); });
  whole.Send(1, [](auto& m) { m.mutable_get_peer_address()->set_connector(kNewest); });
  whole.Send(0, [](auto& m) { m.mutable_notify_disconnect()->set_connector(2); });
  whole.Send(1, [](auto& m) { m.mutable_disconnect()->set_connector(kNewest); });
  close(whole, 0, 2);
  close(whole, 1, kNewest);
  add("connect-and-disconnect", whole);
  Story reject;
  reject.Listen(0)
      .Connector(0, 2)
      .QueuePair(1, kNewest)
      .Connector(1, 2)
      .Bind(1, kNewest, 6000)
      .Connect(1, kNewest, 2);
  reject.Get(0, 2, kNewest).Send(0, [](auto& m) {
    m.mutable_reject()->set_connector(kNewest);
    m.mutable_reject()->set_private_data("no");
    m.mutable_reject()->set_private_data_length(2);
  });
  add("reject", reject);
  for (const unsigned who : {0u, 1u}) {
    Story dies;
    dies.Meet().World(kDie, who);
    add("dies-between-accept-and-complete-" + std::to_string(who), dies);
    Story later;
    later.Meet().Complete(1, kNewest).World(kDie, who);
    add("dies-connected-" + std::to_string(who), later);
  }
  Story cancel;
  cancel.Listen(0).Connector(0, 2).Get(0, 2, kNewest).Send(0, [](auto& m) {
    m.mutable_cancel()->set_handle(2);
  });
  add("cancel-a-waiting-get", cancel);
  Story backlog;
  backlog.Listen(0);
  for (unsigned i = 0; i < 4; ++i) {
    backlog.QueuePair(1 + i % 3, 1 + i / 3 * 2)
        .Connector(1 + i % 3, 2 + i / 3 * 2)
        .Bind(1 + i % 3, kNewest, 6000 + i);
    backlog.Connect(1 + i % 3, kNewest, 2);
  }
  close(backlog, 0, kNewest);
  add("backlog-overflow-then-close", backlog);
  Story cut;
  cut.World(kCut, 1)
      .Listen(0)
      .QueuePair(1, kNewest)
      .Connector(1, 2)
      .Bind(1, kNewest, 6000)
      .Connect(1, kNewest, 2);
  cut.World(kAdvance, 20).Send(1, [](auto& m) { m.mutable_cancel()->set_handle(kNewest); });
  add("wire-is-cut", cut);
  Story hold;
  hold.World(kHold, 1).Meet().Complete(1, kNewest).Send(1, [](auto& m) {
    m.mutable_disconnect()->set_connector(kNewest);
  });
  hold.World(kRelease, 0);
  add("goodbyes-late", hold);
  Story silent;
  silent.World(kSilent, 1).Meet().Complete(1, kNewest);
  silent.Send(1, [](auto& m) { m.mutable_disconnect()->set_connector(kNewest); }).World(kAdvance, 23);
  add("goodbye-unanswered", silent);
  for (unsigned how = 1; how < 4; ++how) {
    Story fail;
    fail.World(kFail, how)
        .QueuePair(1, kNewest)
        .Connector(1, 2)
        .Bind(1, kNewest, 6000)
        .Connect(1, kNewest, 2);
    add("connect-fails-" + std::to_string(how), fail);
  }
  Story ndk;
  ndk.Listen(0, true).QueuePair(1, kNewest).Send(1, [](auto& m) {
    m.mutable_create_shared_endpoint()->set_adapter(2);
    Set(m.mutable_create_shared_endpoint()->mutable_local(), 1, 6100);
  });
  ndk.Connector(1, 3).Send(1, [](auto& m) {
    pb::Connect& op = *m.mutable_connect();
    op.set_connector(kNewest);
    op.set_queue_pair(3);
    op.set_shared_endpoint(2);
    Set(op.mutable_remote(), 1, 7000);
  });
  ndk.QueuePair(0, 3).Accept(0, 2, kNewest).Complete(1, kNewest);
  ndk.Send(0, [](auto& m) {
    m.mutable_control_connect_events()->set_listener(3);
    m.mutable_control_connect_events()->set_pause(true);
  });
  close(ndk, 1, 3, true);
  add("ndk-shared-endpoint", ndk);
  Story report;
  report.Meet().Complete(1, kNewest).Send(0, [](auto& m) {
    m.mutable_transport_report()->set_connector(2);
    m.mutable_transport_report()->set_what(pb::TransportReport::PEER_CLOSED);
    m.mutable_transport_report()->set_reason(2);
  });
  report.Send(0, [](auto& m) {
    m.mutable_transport_report()->set_connector(2);
    m.mutable_transport_report()->set_what(pb::TransportReport::DISCONNECT_DONE);
    m.mutable_transport_report()->mutable_status()->set_code(0);
  });
  report.Send(0, [](auto& m) { m.mutable_transport_report()->set_reason(99); });
  add("reports-out-of-turn", report);
  Story reattach;
  reattach.QueuePair(1, kNewest).Send(1, [](auto& m) {
    pb::Reattach& op = *m.mutable_reattach();
    op.set_adapter(2);
    op.set_queue_pair(kNewest);
    Set(op.mutable_local(), 1, 6000);
    Set(op.mutable_remote(), 2, 7000);
    op.set_proof("0123456789abcdef");
  });
  add("reattach", reattach);
  Story with_pair;
  with_pair.Send(1, [](auto& m) {
    pb::Reattach& op = *m.mutable_reattach();
    op.set_adapter(2);
    Set(op.mutable_local(), 1, 6000);
    Set(op.mutable_remote(), 2, 7000);
    op.set_proof("0123456789abcdef");
    op.set_receive_queue_depth(16);
    op.set_initiator_queue_depth(16);
  });
  add("reattach-makes-queue-pair", with_pair);
  Story others;
  others.Send(2, [](auto& m) { m.mutable_list_adapters(); });
  others.Send(2, [](auto& m) { m.mutable_open_adapter()->set_name("a1"); });
  others.Send(2, [](auto& m) {
    m.mutable_resolve_address()->set_adapter(kNewest);
    Set(m.mutable_resolve_address()->mutable_remote(), 9, 1);
  });
  others.Send(2, [](auto& m) {
    m.mutable_check_address()->set_adapter(kNewest);
    m.mutable_check_address()->mutable_local()->set_family(77);
    m.mutable_check_address()->mutable_local()->set_ip(std::string(40, 'x'));
  });
  others.Send(2, [](auto& m) {
    m.set_op_id(1);
    m.mutable_list_adapters();
  });
  others.Send(2, [](auto& m) {
    m.mutable_hello()->set_token(std::string(16, 't'));
    m.mutable_hello()->set_min_version(1);
    m.mutable_hello()->set_max_version(1);
    m.mutable_hello()->set_application("app-1");
  });
  others.Send(2, [](auto&) {});
  add("questions-and-nonsense", others);
}

}  // namespace nd::fuzz
