// SPDX-License-Identifier: Apache-2.0
// Valid and invalid administrative requests to a running daemon.
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/memfd.h"
#include "daemon/service/counters_pages.h"
#include "daemon/service/service_fixture.h"

namespace nd::service {
namespace {

using Stub = pb::Admin::Stub;
constexpr auto kBad = grpc::StatusCode::INVALID_ARGUMENT;

constexpr std::uint32_t kSharingViolation = 0xC0000043, kInvalidAddress = 0xC0000141,
                        kInvalidHandle = 0xC0000008, kDeviceNotReady = 0xC00000A3,
                        kInvalidParameter = 0xC000000D;

class AdminTest : public ServiceTest {
 protected:
  pb::Completion Bind(RawClient& client, std::uint32_t port) {
    pb::ClientMessage message;
    message.mutable_bind()->set_handle(client.Connector());
    SetLoopback(port, message.mutable_bind()->mutable_local());
    return client.stream.Ask(message);
  }
  void Rewrite(const std::string& config) { std::ofstream(directory_ + "/config.toml") << config; }
  pb::Outcome Reload() { return Call(&Stub::Reload, pb::ReloadRequest()); }
  std::map<std::string, pb::ConfigSetting> Settings(const pb::ConfigReply& reply) {
    std::map<std::string, pb::ConfigSetting> settings;
    for (const pb::ConfigSetting& setting : reply.settings()) {
      EXPECT_TRUE(settings.emplace(setting.name(), setting).second) << setting.name() << " twice";
    }
    return settings;
  }
  std::vector<pb::WatchEvent> Watch(const pb::WatchRequest& request, grpc::Status* status) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    const auto reader = admin_->Watch(&context, request);
    std::vector<pb::WatchEvent> events;
    for (pb::WatchEvent event; reader->Read(&event);) events.push_back(event);
    *status = reader->Finish();
    return events;
  }
};

TEST_F(AdminTest, PortsAreReservedAndReleased) {
  pb::ReservePortRequest reserve;
  SetLoopback(7000, reserve.mutable_local());
  reserve.set_comment("for tests");
  EXPECT_EQ(Call(&Stub::ReservePort, reserve).status().code(), 0u);
  pb::PortList ports = Call(&Stub::ListPorts, All());
  ASSERT_EQ(ports.items_size(), 1);
  EXPECT_EQ(ports.items(0).kind(), "reservation");
  EXPECT_EQ(ports.items(0).state(), "reserved: for tests");
  EXPECT_FALSE(ports.items(0).has_owner());
  RawClient client(directory_);
  EXPECT_EQ(Bind(client, 7000).status().code(), kSharingViolation);
  const pb::Outcome again = Call(&Stub::ReservePort, reserve);
  EXPECT_EQ(again.status().code(), kSharingViolation);
  EXPECT_NE(again.status().message().find("reserved already: for tests"), std::string::npos);

  pb::ReleasePortRequest release;
  *release.mutable_local() = reserve.local();
  EXPECT_EQ(Call(&Stub::ReleasePort, release).status().code(), 0u);
  EXPECT_EQ(Call(&Stub::ReleasePort, release).status().code(), kInvalidHandle);
  EXPECT_EQ(Bind(client, 7000).status().code(), 0u);
  const pb::Outcome held = Call(&Stub::ReservePort, reserve);
  EXPECT_EQ(held.status().code(), kSharingViolation);
  EXPECT_NE(held.status().message().find("of process " + std::to_string(::getpid())), std::string::npos)
      << held.status().message();

  SetLoopback(7001, reserve.mutable_local());
  reserve.set_uid(::getuid());
  EXPECT_EQ(Call(&Stub::ReservePort, reserve).status().code(), 0u);
  EXPECT_EQ(Bind(client, 7001).status().code(), 0u) << "its user may";
}

TEST_F(AdminTest, BadReservationsAreRefusedWithTheReason) {
  pb::ReservePortRequest reserve;
  pb::ReleasePortRequest release;
  Call(&Stub::ReservePort, reserve, kBad);
  Call(&Stub::ReleasePort, release, kBad);
  SetLoopback(0, reserve.mutable_local());
  *release.mutable_local() = reserve.local();
  Call(&Stub::ReservePort, reserve, kBad);
  Call(&Stub::ReleasePort, release, kBad);
  SetLoopback(7000, reserve.mutable_local());
  reserve.set_comment(std::string(300, 'x'));
  Call(&Stub::ReservePort, reserve, kBad);
  reserve.clear_comment();
  reserve.mutable_local()->set_ip(std::string("\x0a\0\0\1", 4));
  EXPECT_EQ(Call(&Stub::ReservePort, reserve).status().code(), kInvalidAddress);
}

TEST_F(AdminTest, PolicyIsShownAndExplained) {
  Rewrite(R"([[rule]]
name = "storage"
match = { uid = 4711 }
listen = ["10.0.0.0/8:4420", "[2001:db8::]/64:7000-7010"]
connect = []
quota = { connectors = 3, shared-endpoints = 2 }
)");
  ASSERT_EQ(Reload().status().code(), 0u);
  const pb::PolicyReply policy = Call(&Stub::GetPolicy, pb::GetPolicyRequest());
  ASSERT_EQ(policy.rules_size(), 1);
  const pb::PolicyRule& rule = policy.rules(0);
  EXPECT_EQ(rule.name(), "storage");
  EXPECT_EQ(rule.uid(), 4711u);
  EXPECT_FALSE(rule.has_gid());
  ASSERT_EQ(rule.listen().items_size(), 2);
  EXPECT_EQ(rule.listen().items(0), "10.0.0.0/8:4420");
  EXPECT_EQ(rule.listen().items(1), "[2001:db8::]/64:7000-7010");
  EXPECT_TRUE(rule.has_connect());
  EXPECT_EQ(rule.connect().items_size(), 0);
  EXPECT_EQ(rule.limits().at("connectors"), 3u);
  EXPECT_EQ(rule.limits().at("shared_endpoints"), 2u);

  pb::CheckPolicyRequest request;
  request.set_uid(4711);
  request.set_action("connect");
  SetLoopback(7000, request.mutable_address());
  pb::CheckPolicyReply reply = Call(&Stub::CheckPolicy, request);
  EXPECT_EQ(reply.status().code(), 0u);
  EXPECT_FALSE(reply.allowed());
  EXPECT_EQ(reply.rule(), "storage");
  ASSERT_EQ(reply.steps_size(), 1);
  EXPECT_TRUE(reply.steps(0).matched());

  RawClient client(directory_);
  client.Connector();
  request.set_session(Call(&Stub::ListSessions, All()).items(0).id());
  reply = Call(&Stub::CheckPolicy, request);
  EXPECT_TRUE(reply.allowed()) << "the session's own user counts";
  EXPECT_EQ(reply.rule(), "default");
  ASSERT_EQ(reply.steps_size(), 1);
  EXPECT_FALSE(reply.steps(0).matched());
  EXPECT_NE(reply.steps(0).reason().find("uid 4711"), std::string::npos);

  request.set_action("limits");
  reply = Call(&Stub::CheckPolicy, request);
  ASSERT_EQ(reply.limits_size(), 6);
  EXPECT_EQ(reply.limits(1).resource(), "connectors");
  EXPECT_EQ(reply.limits(1).used(), 1u);
  EXPECT_EQ(reply.limits(1).rule(), "default");
  request.clear_session();
  reply = Call(&Stub::CheckPolicy, request);
  EXPECT_EQ(reply.limits(1).limit(), 3u);
  EXPECT_EQ(reply.limits(1).rule(), "storage");
  EXPECT_EQ(reply.limits(0).rule(), "default");
}

TEST_F(AdminTest, BadPolicyQuestionsAreRefusedWithTheReason) {
  pb::CheckPolicyRequest request;
  Call(&Stub::CheckPolicy, request, kBad);
  request.set_action("dance");
  Call(&Stub::CheckPolicy, request, kBad);
  request.set_action("listen");
  Call(&Stub::CheckPolicy, request, kBad);  // No address.
  SetLoopback(7000, request.mutable_address());
  request.set_session("c-1");
  Call(&Stub::CheckPolicy, request, kBad);
  request.set_session("s-ffff");
  EXPECT_EQ(Call(&Stub::CheckPolicy, request).status().code(), kInvalidHandle);
}

TEST_F(AdminTest, ConfigurationIsShownWithItsOrigin) {
  pb::ConfigReply config = Call(&Stub::GetConfig, pb::GetConfigRequest());
  auto settings = Settings(config);
  EXPECT_EQ(config.file(), directory_ + "/config.toml");
  EXPECT_EQ(config.needs_restart(), "");
  EXPECT_EQ(settings["limits.pending-operations"].value(), "100");
  EXPECT_EQ(settings["limits.pending-operations"].origin(), "file");
  EXPECT_EQ(settings["timeouts.hello"].value(), "1s");
  EXPECT_EQ(settings["core.max-backlog"].value(), "1024");
  EXPECT_EQ(settings["core.max-backlog"].origin(), "default");
  EXPECT_EQ(settings["broker.directory"].value(), directory_);
  EXPECT_EQ(settings["adapter.soft0.mode"].value(), "separate");
  EXPECT_EQ(settings["compat.bad-network-name"].value(), "false");

  // A reload applies the settings that it can. The others keep their value and are listed as pending.
  Rewrite("[core]\nmax-backlog = 7\n[limits]\npending-operations = 200\n");
  EXPECT_EQ(Call(&Stub::GetConfig, pb::GetConfigRequest()).needs_restart(),
            "[limits], connect, request, keepalive or hello in [timeouts]");
  ASSERT_EQ(Reload().status().code(), 0u);
  config = Call(&Stub::GetConfig, pb::GetConfigRequest());
  settings = Settings(config);
  EXPECT_EQ(settings["core.max-backlog"].value(), "7");
  EXPECT_EQ(settings["core.max-backlog"].origin(), "file");
  EXPECT_EQ(settings["limits.pending-operations"].value(), "100");
  EXPECT_EQ(config.needs_restart(), "[limits], connect, request, keepalive or hello in [timeouts]");
}

TEST_F(AdminTest, TextIsCheckedAsConfiguration) {
  const std::string running =
      "[limits]\nsession-queue-bytes = 131072\npending-operations = 100\n[timeouts]\nhello = \"1s\"\n";
  pb::CheckConfigRequest request;
  request.set_text(running);
  pb::CheckConfigReply reply = Call(&Stub::CheckConfig, request);
  EXPECT_EQ(reply.status().code(), 0u);
  EXPECT_EQ(reply.needs_restart(), "");
  request.set_text(running + "[[adapter]]\ntcp-port = 5000\n");
  EXPECT_EQ(Call(&Stub::CheckConfig, request).needs_restart(), "[[adapter]]");
  request.set_file("new.toml");
  request.set_text("[core]\nmax-baklog = 3\n");
  reply = Call(&Stub::CheckConfig, request);
  EXPECT_EQ(reply.status().code(), kInvalidParameter);
  EXPECT_EQ(reply.status().message(),
            "new.toml:2:1: unknown key \"max-baklog\" in [core]; the nearest known one is \"max-backlog\"");
  request.set_text("#" + std::string(200'000, 'x'));  // More than the limit for a message of a client.
  EXPECT_EQ(Call(&Stub::CheckConfig, request).status().code(), 0u);
}

TEST_F(AdminTest, DrainingBrokerRefusesNewConnections) {
  RawClient before(directory_);
  pb::DrainRequest drain;
  drain.set_drain(true);
  EXPECT_EQ(Call(&Stub::Drain, drain).status().code(), 0u);
  EXPECT_TRUE(GetStatus().draining());
  {
    RawClient late(directory_);
    EXPECT_EQ(late.hello.status().code(), kDeviceNotReady);
    EXPECT_NE(late.hello.status().message().find("draining"), std::string::npos);
  }
  EXPECT_EQ(Bind(before, 0).status().code(), 0u) << "an old session goes on";
  ASSERT_EQ(Reload().status().code(), 0u);
  EXPECT_TRUE(GetStatus().draining());
  drain.set_drain(false);
  EXPECT_EQ(Call(&Stub::Drain, drain).status().code(), 0u);
  EXPECT_FALSE(GetStatus().draining());
}

TEST_F(AdminTest, HealthNamesTheSubjectsThatFail) {
  const pb::DiagnoseReply reply = Call(&Stub::Diagnose, pb::DiagnoseRequest());
  std::map<std::string, std::string> verdicts;
  for (const pb::Diagnosis& item : reply.items()) {
    verdicts[item.name()] = item.verdict();
    EXPECT_EQ(item.remedy().empty(), item.verdict() == "PASS") << item.name();
  }
  EXPECT_EQ(verdicts["version"], "PASS");
  EXPECT_EQ(verdicts["runtime directory"], "PASS");
  EXPECT_EQ(verdicts["adapter loop0"], "PASS");
  EXPECT_EQ(verdicts["quotas"], "PASS");
  EXPECT_EQ(verdicts["log level"], "PASS");
  for (const char* name : {"descriptor limit", "memlock", "TCP port", "network namespace", "clock",
                           "SO_PEERPIDFD", "/dev/infiniband", "loop stall"}) {
    EXPECT_TRUE(verdicts.contains(name)) << name;
  }
  EXPECT_EQ(verdicts["lease journal"], "PASS");
  EXPECT_EQ(verdicts["history database"], "PASS");
  // An administrator removed one of the files.
  std::filesystem::remove(directory_ + "/journal");
  verdicts.clear();
  const pb::DiagnoseReply again = Call(&Stub::Diagnose, pb::DiagnoseRequest());
  for (const pb::Diagnosis& item : again.items()) {
    verdicts[item.name()] = item.verdict();
    if (item.name() == "lease journal") {
      EXPECT_TRUE(item.finding().starts_with(directory_ + "/journal: No such file")) << item.finding();
    }
  }
  EXPECT_EQ(verdicts["lease journal"], "FAIL");
  EXPECT_EQ(verdicts["history database"], "PASS");
}

TEST_F(AdminTest, NewestLogLinesAreReturned) {
  {
    RawStream bad(directory_);
    bad.Hello(std::string(16, 'x'));  // Logged as a warning.
  }
  const pb::LogReply all = Call(&Stub::GetLog, pb::LogRequest());
  ASSERT_GE(all.lines_size(), 1);
  const auto hello = std::find_if(all.lines().begin(), all.lines().end(), [](const std::string& line) {
    return line.find("hello refused") != std::string::npos;
  });
  EXPECT_NE(hello, all.lines().end());
  pb::LogRequest request;
  request.set_lines(1);
  EXPECT_EQ(Call(&Stub::GetLog, request).lines_size(), 1);
}

TEST_F(AdminTest, PastEventsCanBeWatched) {
  { RawClient client(directory_); }
  ASSERT_TRUE(Settles());
  pb::WatchRequest request;
  request.set_since("2000-01-01T00:00:00Z");
  request.set_past_only(true);
  grpc::Status status;
  const std::vector<pb::WatchEvent> events = Watch(request, &status);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events[0].lost(), 0u);
  const auto count = [&](const char* type) {
    return std::count_if(events.begin(), events.end(), [&](const auto& e) { return e.type() == type; });
  };
  EXPECT_EQ(count("session.opened"), 1);
  EXPECT_EQ(count("session.closed"), 1);
  request.set_since("2200-01-01T00:00:00Z");
  EXPECT_TRUE(Watch(request, &status).empty());
  EXPECT_TRUE(status.ok());

  request.set_since("yesterday");
  Watch(request, &status);
  EXPECT_EQ(status.error_code(), kBad);
  EXPECT_NE(status.error_message().find("yesterday"), std::string::npos);
  request.clear_since();
  Watch(request, &status);
  EXPECT_EQ(status.error_code(), kBad);
}

TEST_F(AdminTest, QueuePairsAndRegionsAreListedDespiteForgedRows) {
  RawClient client(directory_);
  client.QueuePair();
  RawLane::Record page = client.lane.Receive();
  client.lane.Ack(page.id);
  ASSERT_EQ(page.fds.size(), 1u);

  const pb::QueuePairList pairs = Call(&Stub::ListQueuePairs, All());
  ASSERT_EQ(pairs.items_size(), 1);
  EXPECT_EQ(pairs.items(0).state(), "unconnected");
  EXPECT_EQ(pairs.items(0).receive_queue_depth(), 1u);
  EXPECT_EQ(pairs.items(0).adapter(), "loop0");
  EXPECT_EQ(pairs.items(0).connection(), "");
  pb::ListRequest one;
  one.set_id(pairs.items(0).id());
  EXPECT_EQ(Call(&Stub::ListQueuePairs, one).items_size(), 1);
  one.set_id("q-1");
  EXPECT_EQ(Call(&Stub::ListQueuePairs, one).items_size(), 0);
  one.set_id("c-1");
  Call(&Stub::ListQueuePairs, one, kBad);

  const std::size_t counters = provider::kCounterSlotsPerPage * sizeof(provider::QpCounters);
  Mapping mapping = Mapping::Map(page.fds[0].get(), counters + sizeof(provider::RegionTable), true).value();
  auto* table = reinterpret_cast<provider::RegionTable*>(mapping.data() + counters);
  EXPECT_EQ(Call(&Stub::ListMemoryRegions, All()).items_size(), 0);
  provider::RegionRow& row = table->rows[0];
  row.kind = 1;
  row.number = 17;
  row.bytes = 4096;
  row.access = 7;
  row.flags = 0xFFFFFFFF;
  table->rows[1].kind = 99;  // Not a kind of region.
  table->rows[2].kind = 2;
  table->rows[2].sequence = 1;  // An odd sequence: the row looks unfinished for ever.
  table->used = 0xFFFFFFFF;
  table->unlisted = 5;
  const pb::MemoryRegionList regions = Call(&Stub::ListMemoryRegions, All());
  ASSERT_EQ(regions.items_size(), 1);
  const std::string session = Call(&Stub::ListSessions, All()).items(0).id().substr(2);
  EXPECT_EQ(regions.items(0).id(), session + ":17");
  EXPECT_EQ(regions.items(0).kind(), "region");
  EXPECT_EQ(regions.items(0).bytes(), 4096u);
  EXPECT_EQ(regions.items(0).access(), "local-write+remote-read+remote-write");
  EXPECT_TRUE(regions.items(0).buffer());
  EXPECT_EQ(regions.items(0).adapter(), "loop0");
  EXPECT_EQ(regions.items(0).owner().pid(), static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(regions.unlisted(), 6u);
  one.set_id(session + ":17");
  EXPECT_EQ(Call(&Stub::ListMemoryRegions, one).items_size(), 1);
  one.set_id(session + ":18");
  EXPECT_EQ(Call(&Stub::ListMemoryRegions, one).items_size(), 0);
  for (const char* bad : {"17", ":", "x:17", "1:", "1:x"}) {
    one.set_id(bad);
    Call(&Stub::ListMemoryRegions, one, kBad);
  }
}

TEST_F(AdminTest, CallsAnswerAndRefuse) {
  RawClient client(directory_);
  const std::uint64_t listener = client.Listener();
  pb::ClientMessage listen;
  listen.mutable_listen()->set_listener(listener);
  SetLoopback(7000, listen.mutable_listen()->mutable_local());
  ASSERT_EQ(client.stream.Ask(listen).status().code(), 0u);

  const pb::ListenerList listeners = Call(&Stub::ListListeners, All());
  ASSERT_EQ(listeners.items_size(), 1);
  const std::string id = listeners.items(0).id();
  EXPECT_EQ(id.substr(0, 2), "l-");
  EXPECT_EQ(listeners.items(0).state(), "listening");
  pb::ListRequest one;
  one.set_id(id);
  EXPECT_EQ(Call(&Stub::ListListeners, one).items_size(), 1);
  one.set_id("l-1");
  EXPECT_EQ(Call(&Stub::ListListeners, one).items_size(), 0);
  one.set_id("nonsense");
  Call(&Stub::ListListeners, one, grpc::StatusCode::INVALID_ARGUMENT);
  Call(&Stub::ListConnections, one, grpc::StatusCode::INVALID_ARGUMENT);
  Call(&Stub::ListPorts, one, grpc::StatusCode::INVALID_ARGUMENT);

  pb::PauseListenerRequest pause;
  pause.set_id(id);
  pause.set_pause(true);
  EXPECT_EQ(Call(&Stub::PauseListener, pause).status().code(), 0u);
  EXPECT_EQ(Call(&Stub::ListListeners, All()).items(0).state(), "paused");
  pause.set_id("l-77");
  EXPECT_EQ(Call(&Stub::PauseListener, pause).status().code(), 0xC0000008);
  pb::KillRequest kill;
  kill.set_id("c-77");
  EXPECT_EQ(Call(&Stub::KillConnection, kill).status().message(), "there is no connection \"c-77\"");
  pb::SetAdapterRequest adapter;
  adapter.set_name("nope");
  EXPECT_EQ(Call(&Stub::SetAdapter, adapter).status().message(),
            "there is no adapter \"nope\"; adapters: loop0");
  adapter.set_name("loop0");
  EXPECT_EQ(Call(&Stub::SetAdapter, adapter).status().code(), 0u);
  EXPECT_EQ(Call(&Stub::ListAdapters, All()).items(0).state(), "disabled");
  adapter.set_enabled(true);
  EXPECT_EQ(Call(&Stub::SetAdapter, adapter).status().code(), 0u);
  EXPECT_EQ(Call(&Stub::ListAdapters, All()).items(0).state(), "enabled");
  pb::SkipTimeRequest skip;
  skip.set_milliseconds(3'600'000);
  EXPECT_EQ(Call(&Stub::SkipTime, skip).status().code(), 0u);
  EXPECT_GT(GetStatus().uptime_seconds(), 3600.0);

  kill.set_id(Call(&Stub::ListSessions, All()).items(0).id());
  EXPECT_EQ(Call(&Stub::KillSession, kill).status().code(), 0u);
  EXPECT_TRUE(client.lane.ClosedByBroker());
}

TEST_F(AdminTest, ReloadAppliesAGoodFileAndKeepsTheOldSettingsOtherwise) {
  const auto reload = [&](const char* text) {
    Rewrite(text);
    return Reload().status();
  };
  EXPECT_EQ(reload("[core]\nmax-backlog = 0\n").code(), 0xC000000D);
  const pb::Status refused = reload("[core]\nmax-baklog = 1\n");
  EXPECT_EQ(refused.message(), directory_ +
                                   "/config.toml:2:1: unknown key \"max-baklog\" in [core]; the nearest "
                                   "known one is \"max-backlog\"");
  EXPECT_EQ(
      reload("[core]\nmax-backlog = 3\n[timeouts]\nhello = \"1s\"\n[limits]\nsession-queue-bytes = 131072\n"
             "pending-operations = 100\n")
          .message(),
      "in effect now: core.max-backlog = 3");
  EXPECT_EQ(
      reload("[[adapter]]\nname = \"x\"\n[timeouts]\nhello = \"1s\"\n").message(),
      "in effect now: core.max-backlog = 1024; changes in [limits], [[adapter]] take effect at the next "
      "start");
  // The new policy applies.
  EXPECT_EQ(reload("[[rule]]\nquota = { listeners = 0 }\n").code(), 0u);
  RawClient client(directory_);
  pb::ClientMessage message;
  message.mutable_create_listener()->set_adapter(client.adapter);
  EXPECT_EQ(client.stream.Ask(message).status().code(), 0xC000009A);
}

TEST_F(AdminTest, WatchReportsEvents) {
  grpc::ClientContext context;
  auto watch = admin_->Watch(&context, pb::WatchRequest());
  watch->WaitForInitialMetadata();
  { RawClient client(directory_); }
  pb::WatchEvent event;
  bool opened = false, closed = false;
  while (!(opened && closed) && watch->Read(&event)) {
    opened |= event.type() == "session.opened";
    if (event.type() == "session.opened") {
      EXPECT_EQ(event.object(), "s-1");
    }
    closed |= event.type() == "session.closed";
    EXPECT_EQ(event.time().size(), 24u) << event.time();
  }
  EXPECT_TRUE(opened && closed);
  context.TryCancel();
  watch->Finish();
}

}  // namespace
}  // namespace nd::service
