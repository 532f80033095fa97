// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include "tests/testing/actor_state.h"

namespace nd::testing {

// The child uses inherited objects: it makes a connector with the adapter of its parent, opens a
// session of its own and ends by exit() with all destructors, as a careless child does.
void ActorState::Fork(Adapter& adapter, const std::string& directory, Writer& out) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);  // A child that hangs fails the test, which must not hang itself.
    Writer report;
    Result<Connector> inherited = adapter.CreateConnector();
    report.Put(inherited.ok() ? Status() : inherited.status());
    OpenOptions options;
    options.broker = directory;
    Result<Adapter> own = Adapter::Open(options);
    report.Put(own.ok() ? Status() : own.status());
    const ssize_t written = write(pipe_ends[1], report.bytes().data(), report.bytes().size());
    std::_Exit(written > 0 ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::string report;
  char part[512];
  ssize_t n;
  while ((n = read(pipe_ends[0], part, sizeof(part))) > 0) report.append(part, static_cast<std::size_t>(n));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  out.Put(report).Put(status);
}

}  // namespace nd::testing
