// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/cm/clerk.h"

#include <algorithm>
#include <utility>

namespace nd::provider::networkdirect {
namespace {

// Separates its inbound ids from those of other providers (combined_cm.h).
constexpr std::uint64_t kOwnBit = std::uint64_t{1} << 61;

Status Broken(const std::string& what) {
  return {StatusCode::kRemoteError, "the client half of an adapter " + what, Detail::kProtocol};
}

// Limits of this side, as its connector has them, from the view of the peer.
ReadLimits OfPeer(const ReadLimits& own) {
  return {own.outbound, own.inbound};
}

// A report of failure with SUCCESS would leave the attempt without an end.
Status Failure(const Status& reported) {
  return reported.ok() || reported.pending()
             ? Status(StatusCode::kConnectionAborted, "the adapter gave no reason")
             : reported;
}

}  // namespace

void Clerk::SetAdapters(std::vector<FoundAdapter> adapters) {
  adapters_ = std::move(adapters);
  sink_.OnAdaptersChanged();
}

std::vector<AdapterDescription> Clerk::adapters() const {
  std::vector<AdapterDescription> all;
  for (const FoundAdapter& adapter : adapters_) all.push_back(adapter.description);
  return all;
}

const FoundAdapter* Clerk::Find(const std::string& name) const {
  const auto named = [&name](const FoundAdapter& found) { return found.description.info.name == name; };
  const auto found = std::ranges::find_if(adapters_, named);
  return found == adapters_.end() ? nullptr : &*found;
}

void Clerk::Send(ClientId client, const Message& message) {
  sink_.SendToClient(client, Encode(message));
}

void Clerk::SendAbout(EndpointId endpoint, Kind kind) {
  const auto found = endpoints_.find(endpoint);
  if (found == endpoints_.end()) return;
  Message message;
  message.kind = kind;
  message.endpoint = static_cast<std::uint64_t>(endpoint);
  Send(found->second.client, message);
}

void Clerk::End(Attempts::iterator attempt) {
  by_number_.erase({attempt->second.client, attempt->second.number});
  attempts_.erase(attempt);
}

Status Clerk::OnClientMessage(ClientId client, std::span<const std::byte> bytes) {
  const std::optional<Message> message = Decode(bytes);
  if (!message || message->kind > Kind::kLost) return Broken("sent something that is no message of it");
  if (message->kind == Kind::kHello) return Hello(client, *message);
  if (!clients_.contains(client)) return Broken("sent a report before it said which adapter it is");
  if (message->kind == Kind::kReserved) {
    Reserved(client, *message);
    return {};
  }
  return message->kind == Kind::kArrived ? Arrived(client, *message) : Reported(client, *message);
}

Status Clerk::Hello(ClientId client, const Message& message) {
  if (clients_.contains(client)) return Broken("said twice which adapter it is");
  Message welcome;
  welcome.kind = Kind::kWelcome;
  const FoundAdapter* const adapter = Find(message.text);
  if (adapter == nullptr) {
    welcome.status = Status(StatusCode::kDeviceRemoved, "the broker has no such adapter any more");
  } else if (!adapter->description.problem.ok()) {
    welcome.status = adapter->description.problem;
  } else {
    clients_.emplace(client, message.text);
    welcome.number = adapter->description.info.adapter_id;
    welcome.class_id = adapter->class_id;
    welcome.text = adapter->dll;
  }
  Send(client, welcome);
  return {};
}

void Clerk::OnClientGone(ClientId client) {
  if (clients_.erase(client) == 0) return;
  std::erase_if(endpoints_, [client](const auto& entry) { return entry.second.client == client; });
  std::erase_if(attempts_, [client](const auto& entry) { return entry.second.client == client; });
  by_number_.erase(by_number_.lower_bound({client, 0}), by_number_.upper_bound({client, ~std::uint64_t{0}}));
}

void Clerk::ReserveFor(ClientId client, bool listens, EndpointId endpoint, const std::string& adapter,
                       const Address& local) {
  const auto known = clients_.find(client);
  const FoundAdapter* const found = Find(adapter);
  if (known == clients_.end() || known->second != adapter || found == nullptr) {
    return sink_.OnReserved(
        endpoint, {StatusCode::kDeviceNotReady, "the process has not opened the adapter by its client half"});
  }
  Address own = local;
  if (local.unspecified()) {
    // An adapter binds to an address of its own.
    const auto& all = found->description.info.addresses;
    const auto same = [&local](const Address& one) { return one.family() == local.family(); };
    const auto first = std::ranges::find_if(all, same);
    if (first == all.end()) {
      return sink_.OnReserved(endpoint, {StatusCode::kInvalidAddress,
                                         adapter + " has no address of the family of " + local.ToString()});
    }
    own = first->WithPort(local.port());
  }
  endpoints_[endpoint] = {client, local, listens};
  Message message;
  message.kind = Kind::kReserve;
  message.endpoint = static_cast<std::uint64_t>(endpoint);
  message.listens = listens;
  message.local = own;
  Send(client, message);
}

void Clerk::Reserved(ClientId client, const Message& message) {
  const EndpointId id{message.endpoint};
  const auto endpoint = endpoints_.find(id);
  if (endpoint == endpoints_.end() || endpoint->second.client != client || !endpoint->second.reserving)
    return;
  endpoint->second.reserving = false;
  const Status status = message.status;
  if (!status.ok()) endpoints_.erase(endpoint);
  sink_.OnReserved(id, status);
}

void Clerk::Release(EndpointId endpoint) {
  SendAbout(endpoint, Kind::kRelease);
  endpoints_.erase(endpoint);
}

void Clerk::Listen(EndpointId endpoint, const std::string& /*adapter*/, const Address& /*local*/) {
  SendAbout(endpoint, Kind::kListen);
}

void Clerk::Unlisten(EndpointId endpoint) {
  SendAbout(endpoint, Kind::kUnlisten);
}

Status Clerk::Arrived(ClientId client, const Message& message) {
  const FoundAdapter* const adapter = Find(clients_.at(client));
  const auto endpoint = endpoints_.find(EndpointId{message.endpoint});
  const bool own = endpoint != endpoints_.end() && endpoint->second.client == client;
  if (own && !endpoint->second.listens)
    return Broken("reported a request for an endpoint that does not listen");
  if ((message.number & kArrivedBit) == 0 || by_number_.contains({client, message.number}))
    return Broken("reported a request under a number that is not free");
  if (adapter == nullptr || !own) {  // The listener closed meanwhile.
    Message reject;
    reject.kind = Kind::kReject;
    reject.number = message.number;
    Send(client, reject);
    return {};
  }
  const Address& bound = endpoint->second.local;
  const bool fits = message.local.well_formed() && message.remote.well_formed() &&
                    message.local.port() == bound.port() &&
                    (bound.unspecified() || message.local.same_ip(bound));
  if (!fits) return Broken("reported a request with addresses that its listener cannot have");
  if (message.data.size() > adapter->description.info.max_caller_data)
    return Broken("reported a request with more private data than its adapter has");
  const CmId id{kInboundBit | kOwnBit | ++last_arrived_};
  attempts_[id] = {client, message.number, State::kArrived};
  by_number_[{client, message.number}] = id;
  InboundRequest request;
  request.id = id;
  request.adapter = adapter->description.info.name;
  request.local = message.local;
  request.remote = message.remote;
  request.peer_offer = OfPeer(message.limits);
  request.private_data = message.data;
  sink_.OnRequest(request);
  return {};
}

Status Clerk::Reported(ClientId client, const Message& message) {
  const auto known = by_number_.find({client, message.number});
  if (known == by_number_.end()) return {};
  const CmId id = known->second;
  const auto attempt = attempts_.find(id);
  State& state = attempt->second.state;
  if (message.data.size() > kMaxData) return Broken("reported too much private data");
  switch (message.kind) {
    case Kind::kReplied:
      if (state != State::kConnecting) break;
      state = State::kReplied;
      sink_.OnReply(id, true, OfPeer(message.limits), message.data);
      return {};
    case Kind::kRefused:
      if (state != State::kConnecting) break;
      End(attempt);
      sink_.OnRejected(id, Failure(message.status), message.data);
      return {};
    case Kind::kFailed:
      if (state != State::kConnecting) break;
      End(attempt);
      sink_.OnFailed(id, Failure(message.status));
      return {};
    case Kind::kEstablished:
      if (state != State::kConfirming && state != State::kAccepting) break;
      state = State::kUp;
      sink_.OnEstablished(id);
      return {};
    case Kind::kLost:
      if (state == State::kConnecting || state == State::kUp) break;
      End(attempt);
      sink_.OnLost(id, Failure(message.status), message.data);
      return {};
    default:
      break;
  }
  return Broken("reported a step of a connection out of order");
}

void Clerk::Connect(const ConnectParams& params) {
  const auto known = clients_.find(params.client);
  if (known == clients_.end() || known->second != params.adapter) {
    return sink_.OnFailed(params.id, {StatusCode::kDeviceNotReady,
                                      "the process has not opened the adapter by its client half"});
  }
  const auto number = static_cast<std::uint64_t>(params.id);
  attempts_[params.id] = {params.client, number, State::kConnecting};
  by_number_[{params.client, number}] = params.id;
  Message message;
  message.kind = Kind::kConnect;
  message.number = number;
  message.endpoint = static_cast<std::uint64_t>(params.endpoint);
  message.queue_pair = params.device_qp;
  message.local = params.local;
  message.remote = params.remote;
  message.limits = params.offer;
  message.data = params.private_data;
  Send(params.client, message);
}

void Clerk::Accept(CmId id, const AcceptParams& params) {
  const auto attempt = attempts_.find(id);
  if (attempt == attempts_.end()) return;
  attempt->second.state = State::kAccepting;
  Message message;
  message.kind = Kind::kAccept;
  message.number = attempt->second.number;
  message.queue_pair = params.device_qp;
  message.limits = params.limits;
  message.data = params.private_data;
  Send(attempt->second.client, message);
}

// Network Direct carries private data, and no reason.
void Clerk::Reject(CmId id, Detail /*detail*/, const Bytes& private_data) {
  const auto attempt = attempts_.find(id);
  if (attempt == attempts_.end()) return;
  Message message;
  message.kind = Kind::kReject;
  message.number = attempt->second.number;
  message.data = private_data;
  const ClientId client = attempt->second.client;
  End(attempt);
  Send(client, message);
}

void Clerk::Confirm(CmId id) {
  const auto attempt = attempts_.find(id);
  if (attempt == attempts_.end()) return;
  attempt->second.state = State::kConfirming;
  Message message;
  message.kind = Kind::kConfirm;
  message.number = attempt->second.number;
  Send(attempt->second.client, message);
}

void Clerk::Abort(CmId id) {
  const auto attempt = attempts_.find(id);
  if (attempt == attempts_.end()) return;
  Message message;
  message.kind = Kind::kAbort;
  message.number = attempt->second.number;
  const ClientId client = attempt->second.client;
  End(attempt);
  Send(client, message);
}

Result<HandOff> Clerk::TakeHandOff(CmId id) {
  const auto attempt = attempts_.find(id);
  if (attempt == attempts_.end() || attempt->second.state != State::kUp) {
    return Status{StatusCode::kConnectionInvalid, "The connection has ended."};
  }
  HandOff out;
  out.record.transport = kTransport;
  SetPayload(PayloadFor(attempt->second.number), &out.record);
  out.transport = kName;
  out.close_may_block = false;
  End(attempt);  // The queue pair has the connection from now on.
  return out;
}

Result<Address> Clerk::Resolve(const std::string& adapter, const Address& remote) const {
  const FoundAdapter* const found = Find(adapter);
  if (found == nullptr) return Status{StatusCode::kDeviceRemoved, "The adapter " + adapter + " was removed."};
  const auto& all = found->description.info.addresses;
  auto own = std::ranges::find_if(all, [&](const Address& one) { return one.same_ip(remote); });
  if (own == all.end()) {
    own = std::ranges::find_if(all, [&](const Address& one) { return one.family() == remote.family(); });
  }
  if (own != all.end()) return *own;
  return Status{StatusCode::kNetworkUnreachable,
                adapter + " has no address of the family of " + remote.ToString()};
}

}  // namespace nd::provider::networkdirect
