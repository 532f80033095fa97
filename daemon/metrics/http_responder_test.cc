// SPDX-License-Identifier: Apache-2.0
// The responder with real sockets: valid clients, slow ones, silent ones and too many of them.
#include "daemon/metrics/http_responder.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "daemon/ops/process.h"

namespace nd::ops {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr std::string_view kMetrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

class Client {
 public:
  Client() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit Client(std::uint16_t port) : Client() { Connect(port); }
  // Connects from another address of this host.
  Client(const char* from, std::uint16_t port) : Client() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    Connect(port);
  }
  Client& Connect(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return *this;
  }
  Client& Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return *this;
  }
  Client& HalfClose() {
    ::shutdown(fd_.get(), SHUT_WR);
    return *this;
  }
  void ReceiveSlowly() {
    const int little = 1;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
  }
  // Returns every byte until the responder closes the connection; with "(reset)" at the end after a reset.
  std::string Answer() {
    std::string out;
    for (;;) {
      char buffer[4096];
      const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
      if (n < 0) return out + "(reset)";
      if (n == 0) return out;
      out.append(buffer, static_cast<std::size_t>(n));
    }
  }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
std::string BodyOf(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

class ResponderTest : public ::testing::Test {
 protected:
  void Start(HttpResponder::Options options = {}, HttpResponder::Handler handler = nullptr) {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(::listen(listener.get(), 256), 0);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    if (handler == nullptr) {
      handler = [](const HttpRequest& request, const HttpResponder::Answer& answer) {
        answer({200, "text/plain", "you asked for " + request.path + "\n"});
      };
    }
    responder_ = std::make_unique<HttpResponder>(std::move(options), std::move(handler));
    responder_->Serve(std::move(listener), {.check_host = true, .refuse = nullptr});
  }
  std::string Ask(std::string_view text) { return Client(port_).Send(text).Answer(); }

  std::uint16_t port_ = 0;
  std::unique_ptr<HttpResponder> responder_;
};

// Returns deadlines that no healthy client reaches, so that a timeout in a test is significant.
HttpResponder::Options Patient() {
  HttpResponder::Options options;
  options.request_time = options.handler_time = options.answer_time = seconds(60);
  return options;
}

TEST_F(ResponderTest, ResponsesHaveTheHeadersThatProtectBrowsers) {
  Start(Patient());
  const std::string answer = Ask(kMetrics);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  for (const char* header :
       {"Date: ", "Content-Type: text/plain\r\n", "Content-Length: 23\r\n", "Connection: close\r\n",
        "X-Content-Type-Options: nosniff\r\n", "Content-Security-Policy: default-src 'none'; ",
        "frame-ancestors 'none'", "Cache-Control: no-store\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n"}) {
    EXPECT_TRUE(Has(answer, header)) << header << " in " << answer;
  }
  EXPECT_FALSE(Has(answer, "Access-Control"));
  EXPECT_EQ(BodyOf(answer), "you asked for /metrics\n");
  const std::string head = Ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(Has(head, "Content-Length: 23\r\n"));
  EXPECT_EQ(BodyOf(head), "");
}

TEST_F(ResponderTest, RefusesWithAMessage) {
  Start(Patient());
  const std::string post = Ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
  EXPECT_TRUE(post.starts_with("HTTP/1.1 405 Method Not Allowed\r\n")) << post;
  EXPECT_TRUE(Has(post, "Allow: GET, HEAD\r\n"));
  EXPECT_EQ(BodyOf(post), "This interface is read-only: use GET or HEAD, not POST.\n");
  EXPECT_TRUE(Ask("\x16\x03\x01").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(Ask("GET / HTTP/1.1\r\nA: " + std::string(100'000, 'x')).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(Ask("GET /" + std::string(100'000, 'x')).starts_with("HTTP/1.1 414 "));
  const std::string half = Client(port_).Send("GET / HT").HalfClose().Answer();
  EXPECT_EQ(BodyOf(half), "The request ended before its headers did.\n");
}

TEST_F(ResponderTest, ForeignHostNamesAreNotServed) {
  HttpResponder::Options options = Patient();
  options.host_names = {"node7.example"};
  Start(options);
  for (const char* host : {"localhost", "127.0.0.1", "127.0.0.1:9885", "[::1]:9885", "10.1.2.3",
                           "node7.example", "NODE7.example:9885", "a.localhost"}) {
    EXPECT_TRUE(Ask("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n").starts_with("HTTP/1.1 200 "))
        << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "999.1.1.1"}) {
    const std::string answer = Ask("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 421 ")) << host;
    EXPECT_TRUE(Has(answer, host));
  }
  EXPECT_TRUE(
      Ask("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 421 "));
}

TEST_F(ResponderTest, HalfCloseAndPipeliningGetTheFirstResponse) {
  Start(Patient());
  EXPECT_EQ(BodyOf(Client(port_).Send(kMetrics).HalfClose().Answer()), "you asked for /metrics\n");
  std::string many;
  for (int i = 0; i < 20; ++i) many += kMetrics;
  EXPECT_EQ(BodyOf(Ask(many)), "you asked for /metrics\n");
  // Sends one byte at a time.
  Client slow(port_);
  const int now = 1;
  ::setsockopt(slow.fd(), IPPROTO_TCP, 1 /* TCP_NODELAY */, &now, sizeof now);
  for (const char byte : kMetrics) slow.Send({&byte, 1});
  EXPECT_EQ(BodyOf(slow.Answer()), "you asked for /metrics\n");
}

TEST_F(ResponderTest, UnfinishedRequestEndsAtItsDeadline) {
  HttpResponder::Options options = Patient();
  options.request_time = options.answer_time = milliseconds(50);
  options.connections = 4;
  Start(options);
  std::deque<Client> silent;
  for (int i = 0; i < 40; ++i) silent.emplace_back(port_).Send(i % 2 == 0 ? "GET / HTTP/1.1\r\nHos" : "");
  // Far more than the slots; each one gets its refusal, and then there is room again.
  int told = 0;
  for (Client& client : silent) {
    const std::string answer = client.Answer();
    told += answer.starts_with("HTTP/1.1 408 ") || answer.starts_with("HTTP/1.1 503 ");
  }
  EXPECT_EQ(told, 40);
  EXPECT_TRUE(Ask(kMetrics).starts_with("HTTP/1.1 200 "));
}

TEST_F(ResponderTest, SlowlorisIsCutAtItsDeadline) {
  HttpResponder::Options options = Patient();
  options.request_time = milliseconds(200);
  Start(options);
  Client loris(port_);
  loris.Send("GET / HTTP/1.1\r\n");
  std::atomic<bool> over{false};
  std::thread drip([&] {
    while (!over) {
      loris.Send("A: b\r\n");
      std::this_thread::sleep_for(milliseconds(10));  // The pace of the attack, not a wait.
    }
  });
  const std::string answer = loris.Answer();
  over = true;
  drip.join();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << answer;
}

TEST_F(ResponderTest, ClientsBeyondTheLimitGetARefusal) {
  HttpResponder::Options options = Patient();
  options.connections = 2;
  std::mutex mutex;
  std::vector<HttpResponder::Answer> waiting;
  std::atomic<int> asked{0};
  Start(options, [&](const HttpRequest&, HttpResponder::Answer answer) {
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(answer));
    ++asked;
  });
  Client first(port_), second(port_);
  first.Send(kMetrics);
  second.Send(kMetrics);
  while (asked < 2) std::this_thread::yield();
  const std::string third = Ask(kMetrics);
  EXPECT_TRUE(third.starts_with("HTTP/1.1 503 ")) << third;
  {
    const std::lock_guard lock(mutex);
    for (auto& answer : waiting) answer({200, "text/plain", "late\n"});
  }
  EXPECT_EQ(BodyOf(first.Answer()), "late\n");
  EXPECT_EQ(BodyOf(second.Answer()), "late\n");
}

// 200 at first, and the attacker replaces each one that is closed.
// The crowd connects as fast as it can, so that the kernel may drop an honest connection's first segment,
// which is repeated after a second. tests/reliability measures the delay; here every request is to be
// answered, and no silent connection may have to reach its deadline first.
TEST_F(ResponderTest, CrowdOfSilentConnectionsKeepsNobodyOut) {
  Start(Patient());
  std::atomic<bool> over{false};
  std::atomic<int> crowd{0};
  std::thread attacker([&] {
    std::deque<Client> silent;
    while (!over) {
      silent.emplace_back(port_);
      if (silent.size() > 200) silent.pop_front();
      ++crowd;
    }
  });
  while (crowd < 200) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    const std::string answer = Ask(kMetrics);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  }
  over = true;
  attacker.join();
}

TEST_F(ResponderTest, SourceThatKeepsEveryHandlerBusyLeavesSlotsToOthers) {
  std::mutex mutex;
  std::vector<HttpResponder::Answer> waiting;
  Start(Patient(), [&](const HttpRequest& request, HttpResponder::Answer answer) {
    if (request.path == "/metrics") return answer({200, "text/plain", "here\n"});
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(answer));
  });
  std::deque<Client> greedy;
  for (int i = 0; i < 60; ++i)
    greedy.emplace_back(port_).Send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto told = [&] {
    std::size_t count = 0;
    for (Client& client : greedy) {
      pollfd answered{client.fd(), POLLIN, 0};
      count += ::poll(&answered, 1, 0) == 1;
    }
    return count;
  };
  const auto end = std::chrono::steady_clock::now() + seconds(10);
  while (told() < 48 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(told(), 48u) << "twelve are served, the others get a refusal";
  EXPECT_TRUE(Ask(kMetrics).starts_with("HTTP/1.1 503 ")) << "the same source";
  EXPECT_TRUE(Client("127.0.0.3", port_).Send(kMetrics).Answer().starts_with("HTTP/1.1 200 "));
  const std::lock_guard lock(mutex);
  waiting.clear();
}

TEST_F(ResponderTest, HandlerThatDoesNotAnswerGives503) {
  HttpResponder::Options options = Patient();
  options.handler_time = milliseconds(50);
  HttpResponder::Answer kept;
  Start(options, [&](const HttpRequest&, HttpResponder::Answer answer) { kept = std::move(answer); });
  EXPECT_TRUE(Ask(kMetrics).starts_with("HTTP/1.1 503 "));
  kept({200, "text/plain", "too late"});
  responder_.reset();
  kept({200, "text/plain", "much too late"});
}

TEST_F(ResponderTest, ReaderThatTakesNothingIsCut) {
  HttpResponder::Options options = Patient();
  options.answer_time = milliseconds(500);
  options.connections = 1;
  const std::string huge(16 << 20, 'x');
  Start(options, [&](const HttpRequest&, const HttpResponder::Answer& answer) {
    answer({200, "text/plain", huge});
  });
  Client lazy(port_);
  lazy.ReceiveSlowly();
  lazy.Send(kMetrics);
  // Its slot is free again although the client is still connected.
  std::string answer;
  do answer = Ask(kMetrics);
  while (answer.starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer.substr(0, 100);
  EXPECT_EQ(BodyOf(answer).size(), huge.size()) << "a reader that keeps reading gets everything";
}

TEST_F(ResponderTest, ServesWithoutAFreeDescriptor) {
  Start(Patient());
  ASSERT_TRUE(Ask(kMetrics).starts_with("HTTP/1.1 200 "));
  Client client;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit tight = before;
  tight.rlim_cur = 64;
  ::setrlimit(RLIMIT_NOFILE, &tight);
  std::deque<UniqueFd> all;
  while (all.emplace_back(::dup(0))) continue;
  const std::string answer = client.Connect(port_).Send(kMetrics).Answer();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
}

TEST_F(ResponderTest, NoClientLeavesADescriptorBehind) {
  HttpResponder::Options options = Patient();
  options.request_time = options.answer_time = milliseconds(20);
  Start(options);
  const std::uint32_t before = OpenFds();
  ASSERT_TRUE(Ask(kMetrics).starts_with("HTTP/1.1 200 "));
  for (int i = 0; i < 50; ++i) {
    Client gone(port_);
    gone.Send(i % 3 == 0 ? "" : i % 3 == 1 ? kMetrics : "GET");
    if (i % 2 == 0) {
      const linger reset{1, 0};
      ::setsockopt(gone.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
  }
  EXPECT_TRUE(Ask(kMetrics).starts_with("HTTP/1.1 "));
  const auto end = std::chrono::steady_clock::now() + seconds(10);
  while (OpenFds() > before && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(OpenFds(), before);
}

}  // namespace
}  // namespace nd::ops
