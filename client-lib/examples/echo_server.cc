// SPDX-License-Identifier: Apache-2.0
// One thread and one epoll serve any number of clients. Its client mode is echo_client.cc.
#include <map>
#include <memory>
#include <string>

#include "example.h"
#include "sleeper_linux.h"

void RunClients(nd::Adapter& adapter, const nd::Address& server, int count);

namespace {

struct Client : End {
  Client(nd::Adapter& adapter, nd::CompletionQueue& queue) : End(adapter, queue, 4096) {
    request.context = this;
    Receive();
  }
  nd::Request request;
  enum { kWaiting, kAccepting, kConnected } step = kWaiting;
};

// Serves until `limit` clients have disconnected.
void Serve(nd::Adapter& adapter, nd::CompletionQueue& queue, nd::Listener& listener, int limit) {
  std::map<void*, std::unique_ptr<Client>> clients;
  const auto expect_client = [&] {
    auto client = std::make_unique<Client>(adapter, queue);
    if (!listener.GetConnectionRequest(client->connector, &client->request).pending()) Fail("cannot listen");
    clients.emplace(static_cast<End*>(client.get()), std::move(client));
  };
  const Sleeper sleeper({adapter.completion_handle(), queue.handle()});
  for (expect_client(); limit > 0; sleeper.Sleep()) {
    queue.ConsumeNotification();
    Must(queue.Notify(nd::NotifyType::kAny));
    for (nd::Completion done; queue.Poll({&done, 1}) == 1;) {
      const auto client = clients.find(done.queue_pair_context);
      if (client == clients.end() || done.status != nd::StatusCode::kSuccess) continue;
      const bool received = done.type == nd::RequestType::kReceive;
      received ? client->second->Send(done.bytes_transferred) : client->second->Receive();
    }
    while (nd::Request* request = adapter.PollRequest()) {  // An operation of a connection has completed.
      auto* client = static_cast<Client*>(request->context);
      nd::Status status = request->GetResult();
      if (client->step == Client::kWaiting) {
        Must(status);
        client->step = Client::kAccepting;
        status = client->connector.Accept(client->pair, {}, request);
        expect_client();
      } else if (client->step == Client::kAccepting && status.ok()) {
        client->step = Client::kConnected;
        status =
            client->connector.NotifyDisconnect(request);  // SUCCESS: the client has disconnected already.
      }
      if (client->step == Client::kConnected && status.ok()) Must(client->connector.Disconnect());
      if (!status.pending()) limit -= static_cast<int>(clients.erase(static_cast<End*>(client)));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc == 4 ? argv[1] : "";
  if (role != "server" && role != "client") Fail("usage: echo_server server|client ADDRESS:PORT CLIENTS");
  const nd::Address address = Must(nd::Address::Parse(argv[2]));
  nd::Adapter adapter = Must(nd::Adapter::Open({.application = "echo_server"}));
  if (role == "client") return RunClients(adapter, address, std::atoi(argv[3])), 0;
  nd::CompletionQueue queue = Must(adapter.CreateCompletionQueue(4096));
  nd::Listener listener = Must(adapter.CreateListener());
  Must(listener.Bind(address));
  Must(listener.Listen());
  std::printf("waiting at %s\n", Must(listener.GetLocalAddress()).ToString().c_str());
  std::fflush(stdout);
  Serve(adapter, queue, listener, std::atoi(argv[3]));
}
