// SPDX-License-Identifier: Apache-2.0
// Real certificates, real sockets on loopback.
#include "base/tls/tls.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>

#include "base/tls/certificates.h"

namespace nd::tls {
namespace {

using std::chrono::seconds;

class Tls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);
    char name[] = "/tmp/nd-tls-XXXXXX";
    root_ = mkdtemp(name);
    for (const char* set : {"good", "other"}) {
      const Status made = MakeCertificates({root_ + "/" + set, {"127.0.0.1", "host.example"}, {"alice"}});
      ASSERT_TRUE(made.ok()) << made.ToString();
    }
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(root_); }

  static Identity Of(const std::string& set, const std::string& who, const std::string& authority = "good") {
    const std::string stem = root_ + "/" + set + "/" + who;
    return {stem + ".pem", stem + "-key.pem", root_ + "/" + authority + "/ca.pem"};
  }
  static std::shared_ptr<Context> Server() {
    return Context::Make(Side::kServer, Of("good", "server")).value();
  }
  static std::shared_ptr<Context> Client() {
    return Context::Make(Side::kClient, Of("good", "alice")).value();
  }

  static void Connected(UniqueFd* a, UniqueFd* b) {
    UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    a->reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(a->get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    b->reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(*b);
  }
  // Runs both sides at once; the result of the client comes first.
  static std::pair<Result<Pipe>, Result<Pipe>> Shake(const std::shared_ptr<Context>& client,
                                                     std::shared_ptr<Context> server,
                                                     const std::string& host = "127.0.0.1") {
    UniqueFd a, b;
    Connected(&a, &b);
    auto passive =
        std::async(std::launch::async, [&] { return Open(server, std::move(b), "", seconds(20)); });
    Result<Pipe> active = Open(client, std::move(a), host, seconds(20));
    if (!active.ok()) return {std::move(active), passive.get()};
    return {std::move(active), passive.get()};
  }
  static std::string root_;
};
std::string Tls::root_;

std::string ReadAll(int fd, std::size_t size) {
  std::string text;
  std::array<char, 65536> part;
  while (text.size() < size) {
    const ssize_t n = recv(fd, part.data(), part.size(), 0);
    if (n <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  return text;
}

TEST_F(Tls, CarriesMegabytesBothWaysAndThenTheEnd) {
  auto [client, server] = Shake(Client(), Server());
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  EXPECT_EQ(server->names, std::vector<std::string>{"alice"});
  std::string there(3'000'001, 'x'), back(2'000'003, 'y');
  for (std::size_t i = 0; i < there.size(); ++i) there[i] = static_cast<char>(i * 131 >> 3);
  for (std::size_t i = 0; i < back.size(); ++i) back[i] = static_cast<char>(i * 17 >> 2);
  const int a = client->plain.get(), b = server->plain.get();
  const auto send_all = [](int fd, const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t n = send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
  };
  auto one = std::async(std::launch::async, [&] { send_all(a, there); });
  auto two = std::async(std::launch::async, [&] { send_all(b, back); });
  auto three = std::async(std::launch::async, [&] { return ReadAll(b, there.size()); });
  EXPECT_EQ(ReadAll(a, back.size()), back);
  EXPECT_EQ(three.get(), there);
  one.get();
  two.get();
  client->plain.reset();
  EXPECT_EQ(ReadAll(b, 1), "");  // The end, not an error.
}

TEST_F(Tls, CertificateMustNameTheHost) {
  EXPECT_TRUE(Shake(Client(), Server(), "host.example").first.ok());
  const auto [client, server] = Shake(Client(), Server(), "other.example");
  EXPECT_EQ(client.code(), StatusCode::kConnectionRefused);
  EXPECT_NE(client.status().message().find("not for 'other.example'"), std::string::npos);
  EXPECT_FALSE(server.ok());
}

TEST_F(Tls, CertificateOfAnotherAuthorityIsRefusedOnEitherSide) {
  {  // With TLS 1.3 the client learns of the refusal at its first read.
    const auto [client, server] = Shake(Context::Make(Side::kClient, Of("other", "alice")).value(), Server());
    EXPECT_EQ(server.code(), StatusCode::kConnectionRefused) << server.status().ToString();
    if (client.ok()) {
      EXPECT_EQ(ReadAll(client->plain.get(), 1), "");
    }
  }
  const auto [client, server] = Shake(Client(), Context::Make(Side::kServer, Of("other", "server")).value());
  EXPECT_EQ(client.code(), StatusCode::kConnectionRefused) << client.status().ToString();
  EXPECT_FALSE(server.ok());
}

TEST_F(Tls, CertificatesOfClientsAndServersAreNotInterchangeable) {
  EXPECT_EQ(Shake(Client(), Context::Make(Side::kServer, Of("good", "alice")).value(), "alice").first.code(),
            StatusCode::kConnectionRefused);
  EXPECT_EQ(Shake(Context::Make(Side::kClient, Of("good", "server")).value(), Server()).second.code(),
            StatusCode::kConnectionRefused);
}

TEST_F(Tls, OtherProtocolsAndSilenceAreDistinguished) {
  UniqueFd a, b;
  Connected(&a, &b);
  ASSERT_EQ(send(a.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  EXPECT_EQ(Open(Server(), std::move(b), "", seconds(20)).code(), StatusCode::kConnectionAborted);
  UniqueFd c, d;
  Connected(&c, &d);
  EXPECT_EQ(Open(Server(), std::move(d), "", std::chrono::milliseconds(50)).code(), StatusCode::kIoTimeout);
}

TEST_F(Tls, InvalidFilesAreNamed) {
  Identity missing = Of("good", "nobody");
  Result<std::shared_ptr<Context>> made = Context::Make(Side::kClient, missing);
  EXPECT_EQ(made.code(), StatusCode::kInvalidParameter);
  EXPECT_NE(made.status().message().find("nobody.pem"), std::string::npos);
  Identity mixed = Of("good", "alice");
  mixed.key = Of("good", "server").key;
  EXPECT_EQ(Context::Make(Side::kClient, mixed).code(), StatusCode::kInvalidParameter);
  Identity garbage = Of("good", "alice");
  garbage.certificate = garbage.key;
  EXPECT_EQ(Context::Make(Side::kClient, garbage).code(), StatusCode::kInvalidParameter);
  const std::string key = root_ + "/open-key.pem";
  std::filesystem::copy_file(Of("good", "alice").key, key);
  chmod(key.c_str(), 0644);
  Identity open = Of("good", "alice");
  open.key = key;
  EXPECT_EQ(Context::Make(Side::kClient, open).code(), StatusCode::kAccessDenied);
}

TEST_F(Tls, NoFileIsOverwrittenAndNamesAreChecked) {
  EXPECT_EQ(MakeCertificates({root_ + "/good", {"a"}, {"bob"}}).code(), StatusCode::kSharingViolation);
  EXPECT_FALSE(std::filesystem::exists(root_ + "/good/bob.pem"));
  for (const char* name : {"", "../x", "a,DNS:b", "ca", "a b"}) {
    EXPECT_EQ(MakeCertificates({root_ + "/bad", {"a"}, {name}}).code(), StatusCode::kInvalidParameter)
        << name;
  }
  EXPECT_EQ(MakeCertificates({root_ + "/bad", {"a,IP:1.2.3.4"}, {"bob"}}).code(),
            StatusCode::kInvalidParameter);
  EXPECT_EQ(MakeCertificates({root_ + "/no/such", {"a"}, {"bob"}}).code(), StatusCode::kUnsuccessful);
}

}  // namespace
}  // namespace nd::tls
