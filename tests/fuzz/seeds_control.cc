// SPDX-License-Identifier: Apache-2.0
// Seeds of fz_lane, fz_config, fz_journal, fz_http and fz_ndctl_args.
#include "daemon/state/journal.h"
#include "provider/counters.h"
#include "provider/hand_off.h"
#include "provider/soft/transports.h"
#include "provider/verbs/transport.h"
#include "tests/fuzz/seeds.h"

namespace nd::fuzz {
namespace {

constexpr unsigned kNull = 0, kPage = 1, kSmall = 2, kUnsealed = 3, kEvent = 4;  // The kind of a descriptor.

class Datagrams {
 public:
  explicit Datagrams(unsigned flags) { seed_.U8(flags); }
  template <typename Record>
  Datagrams& Add(const Record& record, unsigned fds = 0, unsigned kind = 0,
                 std::size_t size = sizeof(Record)) {
    seed_.U8(fds | kind << 4).U8(static_cast<unsigned>(size));
    seed_.Bytes(std::as_bytes(std::span(&record, 1)).first(std::min(size, sizeof record)));
    if (size > sizeof record) seed_.Zeros(size - sizeof record);
    return *this;
  }
  Datagrams& Right() {  // The correct acknowledgement, where the target may send it.
    seed_.U8(0x0F).U8(0);
    return *this;
  }
  const Seed& seed() const { return seed_; }

 private:
  Seed seed_;
};

void AddLane(SeedWriter& writer) {
  using namespace provider;
  const auto add = [&](std::string_view name, const Datagrams& datagrams) {
    writer.Add("lane", name, datagrams.seed());
  };
  const TokenRecord token;
  HandOffRecord shared = soft::SharedRecord(0), iwarp = soft::IwarpRecord(), verbs;
  shared.id = 1;
  iwarp.id = 2;
  verbs.id = 3;
  verbs.transport = verbs::kTransport;
  CountersPageRecord page;
  page.id = 4;
  page.slot_count = kCounterSlotsPerPage;
  const auto client = [&] { return Datagrams(0).Add(token); };
  add("client-everything",
      client().Add(shared, 2, kPage).Add(iwarp, 1, kNull).Add(page, 1, kPage).Add(verbs));
  add("client-token-with-descriptor", Datagrams(0).Add(token, 1));
  add("client-token-too-short", Datagrams(0).Add(token, 0, 0, 23));
  add("client-no-token", Datagrams(0).Add(page, 1, kPage));
  add("client-hand-over-twice", client().Add(iwarp, 1).Add(iwarp, 1));
  add("client-hand-over-without-descriptors", client().Add(iwarp));
  add("client-hand-over-with-too-many", client().Add(iwarp, 2));
  add("client-hand-over-with-nine", client().Add(iwarp, 9));
  add("client-hand-over-too-long", client().Add(iwarp, 1, 0, sizeof iwarp + 8));
  add("client-hand-over-cut", client().Add(iwarp, 1, 0, 11));
  HandOffRecord wrong = iwarp;
  wrong.id = 0;
  add("client-hand-over-id-zero", client().Add(wrong, 1));
  wrong = iwarp;
  wrong.version = 2;
  add("client-hand-over-of-another-version", client().Add(wrong, 1));
  wrong.magic = 7;
  add("client-unknown-record", client().Add(wrong, 1));
  wrong = shared;
  wrong.fd_count = 1;
  add("client-shared-with-one-descriptor", client().Add(wrong, 1));
  for (const unsigned kind : {kNull, kSmall, kUnsealed, kEvent}) {
    add("client-page-that-will-not-do-" + std::to_string(kind), client().Add(page, 1, kind));
  }
  CountersPageRecord bad = page;
  bad.slot_count = 0;
  add("client-page-of-nothing", client().Add(bad, 1, kPage));
  bad.slot_count = 0xFFFFFFFF;
  add("client-page-of-everything", client().Add(bad, 1, kPage));
  add("client-page-twice", client().Add(page, 1, kPage).Add(page, 1, kPage));
  AckRecord ack;
  ack.id = 1;
  add("broker-acknowledged", Datagrams(3).Right().Right().Right());
  add("broker-acknowledged-by-hand", Datagrams(1).Add(ack).Add(ack));
  add("broker-with-descriptor", Datagrams(1).Add(ack, 1));
  add("broker-too-short", Datagrams(1).Add(ack, 0, 0, 15));
  add("broker-too-long", Datagrams(3).Right().Add(ack, 0, 0, 17));
  ack.id = 99;
  add("broker-unknown-id", Datagrams(3).Right().Add(ack));
  ack.version = 9;
  add("broker-other-version", Datagrams(1).Add(ack));
  struct {
    MessageRecord record;
    std::uint32_t lengths[2] = {};
  } const two;
  add("broker-two-messages", Datagrams(1).Add(two));
  add("broker-two-messages-cut", Datagrams(1).Add(two, 0, 0, sizeof two - 1));
  add("broker-sixteen-descriptors", Datagrams(1).Add(shared, 15));
}

void AddConfig(SeedWriter& writer) {
  const auto add = [&](std::string_view name, std::string_view text) {
    writer.Add("config", name, Seed().Text(text));
  };
  add("whole", R"([broker]
directory = "/run/ndbroker"
client-socket-mode = "0660"
client-socket-group = "root"
foreign-network-namespaces = "refuse"
log-level = "debug"
[limits]
unauthenticated = 64
grpc-memory-bytes = 67108864
[core]
max-backlog = 128
ephemeral-first = 49152
ephemeral-last = 65535
[timeouts]
disconnect = "10s"
connect = "250ms"
keepalive = "2min"
establish = "1h"
[compat]
bad-network-name = true
[verbs]
enabled = true
devices = ["rxe0"]
[[adapter]]
name = "soft0"
addresses = ["10.0.0.1", "fd00::1"]
mode = "tcp"
tcp-port = 4794
tcp-networks = ["192.0.2.0/24"]
crc = false
max-inbound-read-limit = 16
[[rule]]
name = "storage"
match = { uid = "root", gid = 0, cgroup = "system.slice" }
listen = ["192.0.2.0/24:4420", "[2001:db8::]/64:7000-7010", "*:1"]
connect = ["*"]
quota = { sessions = 4, ports = 0, queue-pairs = 16000000 }
[[rule]]
match = { uid = 1000 }
listen = []
)");
  add("mistakes",
      "[broker]\nlog-level = \"loud\"\ndirectory = \"here\"\nclient-socket-mode = \"0777\"\n[croe]\nx = 1\n"
      "[core]\nmax-backlog = 0\nephemeral-first = 5\nephemeral-last = 4\nmax-baklog = 1\n"
      "[timeouts]\nconnect = \"5 s\"\nrequest = 5\nestablish = "
      "\"99999999999999999999h\"\n[compat]\nbad-network-name = 1\n");
  add("wrong-types",
      "broker = 1\nrule = {}\nadapter = [1]\nverbs = 2024-01-01\n[limits]\nunauthenticated = "
      "1.5\n[timeouts]\nhello = []\n");
  add("two-adapters",
      "[[adapter]]\nname = \"a\"\n[[adapter]]\nname = \"a\"\naddresses = [\"0.0.0.0\", \"224.0.0.1\", "
      "3]\nmode = \"both\"\n");
  add("networks",
      "[[rule]]\nlisten = [\"1.2.3.4/33\", \"[::1\", \"::1/64:5\", \"*/8\", \"1.2.3.4:\", \"1.2.3.4:9-8\", "
      "\"1.2.3.4/\", \"[[::]]\"]\n");
  add("not-toml", "[broker\n");
  add("control-characters", "\"a\\u0001\\u001b[31m\" = 1\n[broker]\n\"\\n\" = 2\n");
  int number = 0;
  for (const char* text : {"192.0.2.0/24:4420", "[2001:db8::]/64:7000-7010", "*:*", "10.0.0.1", "fe80::1%lo",
                           "::ffff:1.2.3.4/96"}) {
    add("network-" + std::to_string(++number), text);
  }
}

void AddJournal(SeedWriter& writer) {
  constexpr char kBoot[] = "11111111-2222-3333-4444-555555555555";
  core::Lease lease;
  lease.adapter = "soft0";
  lease.local = Address::Parse("10.0.0.1:7000").value();
  lease.kind = core::PortKind::kListener;
  lease.holder = {1000, 4242, 99};
  core::Lease other = lease;
  other.adapter.assign(state::kMaxAdapterName, 'a');
  other.local = Address::Parse("[fd00::1]:1").value();
  const state::Header header{kBoot, 7, {Time(Duration(1)), Time(Duration(2))}};
  const auto image = [&](const state::Header& head, std::initializer_list<core::Lease> leases) {
    Seed seed;
    seed.U8(0).Bytes(std::span<const std::byte>(state::EncodeHeader(head)));
    std::uint32_t index = 0;
    for (const core::Lease& one : leases) {
      seed.Bytes(std::span<const std::byte>(state::EncodeRecord(head.generation, index++, one)));
    }
    return seed;
  };
  const auto add = [&](std::string_view name, const Seed& seed) { writer.Add("journal", name, seed); };
  add("empty", Seed().U8(0));
  add("no-leases", image(header, {}));
  const Seed three = image(header, {lease, other, lease});
  add("three", three);
  Seed freed = three;
  const auto mark = state::EncodeFreed();
  std::memcpy(freed.bytes().data() + 1 + state::kHeaderSize + state::kRecordSize, mark.data(), mark.size());
  add("one-freed", freed);
  for (const std::size_t cut : {1u, 8u, 64u, 128u, 129u, 300u}) {
    Seed shorter = three;
    shorter.bytes().resize(shorter.bytes().size() - cut);
    add("cut-" + std::to_string(cut), shorter);
  }
  for (const std::size_t at : {1u, 9u, 17u, 60u, 128u, 130u, 137u, 161u, 170u, 256u}) {
    Seed flipped = three;
    flipped.bytes()[at] ^= 0x04;
    add("flipped-" + std::to_string(at), flipped);
    flipped.bytes()[0] = 1;
    add("flipped-and-repaired-" + std::to_string(at), flipped);
  }
  add("other-boot", image({"99999999-2222-3333-4444-555555555555", 7, {}}, {lease}));
  Seed swapped = three;
  std::swap_ranges(swapped.bytes().begin() + 1 + state::kHeaderSize,
                   swapped.bytes().begin() + 1 + state::kHeaderSize + state::kRecordSize,
                   swapped.bytes().begin() + 1 + state::kHeaderSize + state::kRecordSize);
  add("out-of-order", swapped);
}

void AddHttp(SeedWriter& writer) {
  const auto add = [&](std::string_view name, std::string_view text) {
    writer.Add("http", name, Seed().Text(text));
  };
  add("metrics", "GET /metrics HTTP/1.1\r\nHost: localhost:9100\r\nUser-Agent: x\r\n\r\n");
  add("query", "HEAD /a%2Fb?x=1&y=%41+b&&z HTTP/1.1\r\nHost: [::1]:80\r\nAccept: */*\r\n\r\nrest");
  add("absolute", "GET http://Example.org:80/metrics?a HTTP/1.1\nHost: other\n\n");
  add("version-1.0", "GET / HTTP/1.0\r\n\r\n");
  add("version-2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  add("post", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
  add("body", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
  add("chunked", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  add("two-hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
  add("no-host", "GET / HTTP/1.1\r\n\r\n");
  add("folded", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n");
  add("blank-before-colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n");
  add("bad-percent", "GET /?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n");
  add("control-in-query", "GET /?a=%0a HTTP/1.1\r\nHost: a\r\n\r\n");
  add("cut-percent", "GET /?a=%4 HTTP/1.1\r\nHost: a\r\n\r\n");
  add("no-slash", "GET metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  add("asterisk", "GET * HTTP/1.1\r\nHost: a\r\n\r\n");
  add("bad-host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n");
  add("bad-port", "GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n");
  add("open-bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n");
  add("tls", std::string_view("\x16\x03\x01\x02\x00\x01\x00", 7));
  add("long-method", std::string(60, 'A') + " / HTTP/1.1\r\n");
  add("cut-off", "GET /metrics HTTP/1.1\r\nHost: loc");
  add("empty-lines", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
  add("zero-byte", std::string_view("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 28));
  add("too-long-line", "GET /" + std::string(4200, 'a'));
  add("too-long-headers", "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(4200, 'a'));
  add("http-0.9", "GET /\r\n");
}

void AddCommandLines(SeedWriter& writer) {
  const auto add = [&](std::string_view name, unsigned kind, std::initializer_list<std::string_view> texts) {
    Seed seed;
    seed.U8(kind);
    for (const std::string_view text : texts) seed.U8(static_cast<unsigned>(text.size())).Text(text);
    writer.Add("ndctl_args", name, seed);
  };
  add("list", 1, {"connection", "list", "-o", "json", "--filter", "state=Connected", "--sort", "-age"});
  add("columns", 1, {"conn", "list", "--output=custom=ID,STATE"});
  add("show", 1, {"listener", "show", "7"});
  add("kill", 1, {"connection", "kill", "3", "--yes"});
  add("status", 1, {"status", "--timeout", "1.5", "--color", "never"});
  add("ping", 1, {"ping", "10.0.0.1:7471", "--count", "3"});
  add("events", 1, {"events", "--type", "connection.*"});
  add("typo", 1, {"conection", "lst"});
  add("bad-option", 1, {"connection", "list", "--filtr", "a=b"});
  add("bad-number", 1, {"status", "--timeout", "x"});
  add("nothing", 1, {});
  add("help", 1, {"connection", "list", "-h"});
  add("version", 1, {"--version"});
  add("dashes", 1, {"--", "-", "--=", "-o", "-oyaml"});
  add("adapter", 1, {"adapter", "disable", "soft0"});
  add("config", 1, {"config", "reload"});
  add("session", 1, {"session", "list"});
  add("port", 1, {"port", "list", "--filter", "type!=listener"});
  add("rows", 0, {"state=Connected", "-bytes", "custom=ID,owner.pid,TX", "one", "two\nlines", "\x1b[31mred"});
  add("pattern", 0, {"id=[a-m]*", "id", "custom=LIST", "alpha", "zulu", "a*"});
  add("negated", 0, {"OWNER!=x?", "AGE", "wide", "xy", "xyz"});
  add("not-utf-8", 0, {"id=*", "id", "yaml", "\xff\xfe", "\xc3\xa9", "- a: b", "null", "1e5", "'"});
  add("unknown-field", 0, {"sate=x", "", "", "a"});
  add("unknown-sort", 0, {"", "-sise", "", "a"});
  add("no-filter", 0, {"=x", "", "custom=", "a"});
  add("unknown-column", 0, {"", "", "custom=,ID", "a"});
}

}  // namespace

void AddControlSeeds(SeedWriter& writer) {
  AddLane(writer);
  AddConfig(writer);
  AddJournal(writer);
  AddHttp(writer);
  AddCommandLines(writer);
}

}  // namespace nd::fuzz
