// SPDX-License-Identifier: Apache-2.0
// The applications that the measurements start as processes of their own. Each writes lines to its standard
// output and runs until it is told to end. Times are of the monotonic clock, in milliseconds.
#pragma once

#include <string>
#include <vector>

#include "tests/testing/process.h"

namespace nd::reliability {

// Accepts connections at ADDRESS and answers each message with the same message. Prints "listening", and
// "gone COUNT TIME" when the last of `expected` connections has broken.
// "session lost TIME" and "session back TIME" at each restart of the broker.
int RunEcho(const std::vector<std::string>& arguments);  // DIRECTORY ADDRESS EXPECTED
// Makes COUNT connections and prints "ready". Sends a numbered message on each of them every PERIOD
// milliseconds and checks the answers; tells of its session as above. SIGUSR1 begins the second phase;
// SIGTERM ends it: "client connections=... lost=... wrong=...", with the delays of answers in both phases.
int RunClient(const std::vector<std::string>& arguments);  // DIRECTORY ADDRESS COUNT PERIOD
// Connects and disconnects for ever: "up TIME" after each first success behind a failure.
int RunProber(const std::vector<std::string>& arguments);  // DIRECTORY ADDRESS
// Tries to take the port of ADDRESS for ever. On SIGTERM: "theft tries=... thefts=...".
int RunThief(const std::vector<std::string>& arguments);  // DIRECTORY ADDRESS

// Makes connections for ever, in PROCESSES processes of THREADS threads, each to a listener of its own from
// the port of ADDRESS on. Prints "storming" when all have begun. SIGUSR1 begins the next phase; SIGTERM: a
// line for each phase, then "storm over".
int RunStorm(const std::vector<std::string>& arguments);  // DIRECTORY ADDRESS PROCESSES THREADS
// Asks for queue pairs in COUNT sessions and acknowledges no descriptor. Prints "silent" when all have asked.
int RunSilent(const std::vector<std::string>& arguments);  // DIRECTORY COUNT
// Opens COUNT connections to the broker at 127.0.0.HOST from sixteen networks: every second one is silent,
// the others send a byte of a request each second. One that the broker closes is opened again. Prints "slow"
// when each has been opened.
int RunSlow(const std::vector<std::string>& arguments);  // HOST COUNT

// One of these processes and its output.
class App {
 public:
  App(const std::string& place, const std::string& name, std::vector<std::string> arguments,
      std::optional<uid_t> uid = {});
  // All complete lines so far.
  std::vector<std::string> Lines() const;
  // Waits for the `nth` line that begins with `start`; "" when it does not come.
  std::string Await(const std::string& start, std::size_t nth = 1,
                    std::chrono::milliseconds patience = std::chrono::seconds(60)) const;
  // SIGTERM, and the line that begins with `start`.
  std::string End(const std::string& start);
  testing::Process& process() { return process_; }

 private:
  std::string output_;
  testing::Process process_;
};

// "name=VALUE" in a line; -1 without it.
double Field(const std::string& line, const std::string& name);

}  // namespace nd::reliability
