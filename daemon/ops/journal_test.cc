// SPDX-License-Identifier: Apache-2.0
// Lines as a journal receives them: a datagram socket in its place, with the protocol decoded here and by the
// parser of systemd. A hanging or missing journal must not block the broker.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"
#include "daemon/ops/journal_log.h"
#include "daemon/ops/logging.h"

namespace nd::ops {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

// Decodes one datagram of the native protocol; returns nothing when it is malformed.
std::optional<Fields> Decode(const std::string& datagram) {
  Fields fields;
  for (std::size_t at = 0; at < datagram.size();) {
    const std::size_t end = datagram.find('\n', at);
    if (end == std::string::npos) return std::nullopt;
    const std::string line = datagram.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) {
      fields.emplace_back(line.substr(0, equals), line.substr(equals + 1));
      continue;
    }
    if (datagram.size() - at < 8) return std::nullopt;
    std::uint64_t size = 0;
    for (int i = 7; i >= 0; --i)
      size = size << 8 | static_cast<unsigned char>(datagram[at + static_cast<std::size_t>(i)]);
    at += 8;
    if (size >= datagram.size() - at || datagram[at + size] != '\n') return std::nullopt;
    fields.emplace_back(line, datagram.substr(at, size));
    at += size + 1;
  }
  return fields;
}

class JournalSocketTest : public ::testing::Test {
 protected:
  JournalSocketTest() {
    char name[] = "/tmp/ndjournalXXXXXX";
    directory_ = ::mkdtemp(name);
    Listen();
    // stderr of the log is the stream of the journal, as systemd announces it to a service.
    struct stat st;
    EXPECT_EQ(::fstat(2, &st), 0);
    ::setenv("JOURNAL_STREAM", (std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino)).c_str(), 1);
    StartLogging("info");
    OpenJournal(path());
  }
  ~JournalSocketTest() override {
    ::unsetenv("JOURNAL_STREAM");
    OpenJournal("/nonexistent");
    std::filesystem::remove_all(directory_);
  }
  std::string path() const { return directory_ + "/socket"; }
  void Listen() {
    std::filesystem::remove(path());
    receiver_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().data(), path().size());
    ASSERT_EQ(::bind(receiver_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  // Returns the next datagram; empty when there is none.
  std::string Receive() {
    std::string datagram(65536, '\0');
    const ssize_t n = ::recv(receiver_.get(), datagram.data(), datagram.size(), 0);
    datagram.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return datagram;
  }
  std::string MessageOf(const std::string& datagram) {
    const std::optional<Fields> fields = Decode(datagram);
    return fields && !fields->empty() && fields->front().first == "MESSAGE" ? fields->front().second : "";
  }

  std::string directory_;
  UniqueFd receiver_;
};

TEST_F(JournalSocketTest, LineArrivesWithItsFields) {
  ASSERT_TRUE(LogsToJournal());
  LogWarning("connection failed", "peer 10.0.0.1: \"x\"\nPRIORITY=0", {"connection.failed", "c-12"});
  EXPECT_EQ(Decode(Receive()), (Fields{{"MESSAGE", "connection failed: peer 10.0.0.1: \"x\"?PRIORITY=0"},
                                       {"PRIORITY", "4"},
                                       {"SYSLOG_IDENTIFIER", "ndbrokerd"},
                                       {"NDB_EVENT", "connection.failed"},
                                       {"NDB_CONNECTION", "c-12"}}));
  LogInfo("ready");
  LogError("broken");
  LogDebug("not at this level");
  EXPECT_EQ(Decode(Receive()),
            (Fields{{"MESSAGE", "ready"}, {"PRIORITY", "6"}, {"SYSLOG_IDENTIFIER", "ndbrokerd"}}));
  EXPECT_EQ(MessageOf(Receive()), "broken");
  EXPECT_EQ(Receive(), "");
}

TEST_F(JournalSocketTest, SeveralLinesAreOneFieldAndCannotForgeAnother) {
  const std::string text = "one\ntwo\n\nPRIORITY=0\n";
  SendToJournal(3, text, {"a.b", "s-1\nNDB_EVENT=forged"});
  EXPECT_EQ(Decode(Receive()), (Fields{{"MESSAGE", text},
                                       {"PRIORITY", "3"},
                                       {"SYSLOG_IDENTIFIER", "ndbrokerd"},
                                       {"NDB_EVENT", "a.b"},
                                       {"NDB_SESSION", "s-1\nNDB_EVENT=forged"}}));
}

TEST_F(JournalSocketTest, FloodIsLimitedOnItsWayToTheJournal) {
  int arrived = 0;
  for (int i = 0; i < 100; ++i) {
    LogWarning("flood", "again");
    arrived += Receive().empty() ? 0 : 1;
  }
  EXPECT_EQ(arrived, static_cast<int>(RateLimit::kBurst));
}

TEST_F(JournalSocketTest, HangingJournalLosesLinesAndDoesNotBlock) {
  // More than the queue of any socket holds; on a thread of its own, in case it blocks.
  auto done = std::async(std::launch::async, [] {
    for (int i = 0; i < 20'000; ++i) LogInfo("line " + std::to_string(i));
  });
  const bool in_time = done.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(in_time) << "it waits for the journal";
  int taken = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    for (; !Receive().empty(); ++taken) {
    }
  } while (!in_time && done.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready &&
           std::chrono::steady_clock::now() < end);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 20'000);
  LogInfo("it reads again");
  EXPECT_EQ(MessageOf(Receive()), "it reads again");
  EXPECT_EQ(MessageOf(Receive()),
            std::to_string(20'000 - taken) + " lines before this one were refused by the journal");
  LogInfo("and once more");
  EXPECT_EQ(MessageOf(Receive()), "and once more");
  EXPECT_EQ(Receive(), "") << "it is said once";
}

TEST_F(JournalSocketTest, RestartedJournalIsFoundAgain) {
  std::filesystem::remove(path());
  LogInfo("into nothing");
  receiver_.reset();
  Listen();
  LogInfo("back");
  EXPECT_EQ(MessageOf(Receive()), "back");
  EXPECT_EQ(MessageOf(Receive()), "1 lines before this one were refused by the journal");
}

std::string OutputOf(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "cannot run " + command;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  ::pclose(pipe);
  return out;
}

// An entry of the export format has the same fields, after a time stamp and before an empty line.
TEST_F(JournalSocketTest, SystemdParserReadsTheSameFields) {
  const char* const parser = "/lib/systemd/systemd-journal-remote";
  if (::access(parser, X_OK) != 0) GTEST_SKIP() << "SKIPPED LOUDLY: there is no " << parser;
  SendToJournal(3, "one\ntwo", {"connection.failed", "c-12"});
  const std::string datagram = Receive();
  ASSERT_FALSE(datagram.empty());
  std::ofstream(directory_ + "/export", std::ios::binary)
      << "__REALTIME_TIMESTAMP=1700000000000000\n__MONOTONIC_TIMESTAMP=1000000\n"
         "_BOOT_ID=11111111111111111111111111111111\n"
      << datagram << "\n";
  const std::string journal = directory_ + "/remote.journal";
  const std::string told =
      OutputOf(std::string(parser) + " -o " + journal + " " + directory_ + "/export 2>&1");
  ASSERT_TRUE(std::filesystem::exists(journal)) << told;
  const std::string json = OutputOf("journalctl --file " + journal + " -o json 2>&1");
  for (const char* field : {"\"MESSAGE\":\"one\\ntwo\"", "\"PRIORITY\":\"3\"", "\"NDB_CONNECTION\":\"c-12\"",
                            "\"SYSLOG_IDENTIFIER\":\"ndbrokerd\"", "\"NDB_EVENT\":\"connection.failed\""}) {
    std::string compact = json;
    std::erase(compact, ' ');
    EXPECT_NE(compact.find(field), std::string::npos) << field << " in " << json << told;
  }
}

}  // namespace
}  // namespace nd::ops
