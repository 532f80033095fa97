// SPDX-License-Identifier: Apache-2.0
// The table of programs and their shared helpers.
#include "tests/testing/programs.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "tests/testing/process.h"
#include "tests/testing/programs_common.h"

namespace nd::testing {

Arguments::Arguments(const std::string& words) {
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const std::size_t cut = word.find('=');
    if (cut != std::string::npos) values_[word.substr(0, cut)] = word.substr(cut + 1);
  }
}
std::string Arguments::Text(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string() : found->second;
}
int Arguments::Number(const std::string& key, int otherwise) const {
  const std::string text = Text(key);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}
Address Arguments::At(const std::string& key) const {
  return Address::Parse(Text(key)).value().WithPort(
      static_cast<std::uint16_t>(Number(key + "port", Number("port"))));
}

End::End(Adapter& adapter, std::size_t size, std::uint32_t depth) {
  cq = adapter.CreateCompletionQueue(depth * 2 + 16).value();
  QueuePairOptions options;
  options.receive_cq = &cq;
  options.initiator_cq = &cq;
  options.receive_depth = depth;
  options.initiator_depth = depth;
  qp = adapter.CreateQueuePair(options).value();
  buffer = adapter.AllocateBuffer(size).value();
  region = adapter.Register(buffer, kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink)
               .value();
}

Status Await(Status inline_status, Request& request) {
  if (!inline_status.pending()) return inline_status;
  Status status = inline_status;
  Eventually(
      [&] {
        status = request.GetResult(false);
        return !status.pending();
      },
      kProgramPatience);
  return status;
}

Completion NextOf(End& end, RequestType type, bool notified) {
  const auto wanted = [type](const Completion& c) {
    return c.type == type || c.status != StatusCode::kSuccess;
  };
  if (const auto kept = std::find_if(end.early.begin(), end.early.end(), wanted); kept != end.early.end()) {
    const Completion completion = *kept;
    end.early.erase(kept);
    return completion;
  }
  const auto give_up = std::chrono::steady_clock::now() + Scaled(kProgramPatience);
  Completion completion;
  while (std::chrono::steady_clock::now() < give_up) {
    if (end.cq.Poll(std::span(&completion, 1)) == 1) {
      if (wanted(completion)) return completion;
      end.early.push_back(completion);
    } else if (notified) {
      (void)end.cq.Wait(std::chrono::milliseconds(100));
    }
  }
  completion.status = StatusCode::kIoTimeout;
  return completion;
}

Adapter OpenFor(const Arguments& arguments) {
  OpenOptions open;
  open.broker = arguments.Text("broker");
  open.adapter = arguments.Text("adapter");
  return Adapter::Open(open).value();
}

std::string BindAll(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  const int count = arguments.Number("count");
  constexpr int kThreads = 4;
  std::vector<Connector> taken[kThreads];
  std::vector<std::thread> threads;
  std::string failure;
  std::mutex mutex;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < count / kThreads; ++i) {
        Connector connector = adapter.CreateConnector().value();
        const Status status = connector.Bind(arguments.At());
        if (!status.ok()) {
          const std::lock_guard lock(mutex);
          failure = status.ToString();
          return;
        }
        taken[t].push_back(connector);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty()) return failure;
  std::set<std::uint16_t> ports;
  for (const auto& part : taken) {
    for (const Connector& connector : part) ports.insert(connector.GetLocalAddress().value().port());
  }
  const Status next = adapter.CreateConnector().value().Bind(arguments.At());
  return "ok distinct=" + std::to_string(ports.size()) + " low=" + std::to_string(*ports.begin()) +
         " high=" + std::to_string(*ports.rbegin()) + " next=" + std::string(Name(next.code()));
}

std::string RunProgram(const std::string& name, const std::string& words) {
  const Arguments arguments(words);
  if (name == "bind_all") return BindAll(arguments);
  if (name == "race_bind") return RaceBind(arguments);
  if (name == "race_cancel") return RaceCancel(arguments);
  if (name == "cancel_order") return CancelOrder(arguments);
  if (name == "churn") return Churn(arguments);
  if (name == "post_race") return PostRace(arguments);
  if (name == "accept_loop") return AcceptLoop(arguments);
  if (name == "connect_loop") return ConnectLoop(arguments);
  if (name == "many_clients") return ManyClients(arguments);
  if (name == "rate_server") return RateServer(arguments);
  if (name == "rate_client") return RateClient(arguments);
  if (name == "registration_loop") return RegistrationLoop(arguments);
  return "no program called " + name;
}

}  // namespace nd::testing
