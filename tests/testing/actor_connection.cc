// SPDX-License-Identifier: Apache-2.0
// Verbs on connectors, listeners and shared endpoints.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/testing/actor_state.h"

namespace nd::testing {
namespace {

// Private data of a test: bytes, or a length without a buffer.
struct DataArgument {
  explicit DataArgument(Reader& in) : bytes(in.Text()), missing(in.U32()) {}
  PrivateData span() const {
    if (missing != 0) return PrivateData(static_cast<const std::byte*>(nullptr), missing);
    return AsPrivateData(bytes);
  }
  std::string bytes;
  std::uint32_t missing;
};

// A buffer with guard bytes behind it.
struct GuardedBuffer {
  explicit GuardedBuffer(Reader& in) : null(in.Bool()), capacity(in.U32()), bytes(capacity + 64, '\xA5') {}
  void* data() { return null ? nullptr : bytes.data(); }
  bool null;
  std::uint32_t capacity;
  std::string bytes;
};

}  // namespace

void ActorState::Begin(Reader& in, Writer& out, const std::function<Status(nd::Request*)>& call) {
  const auto tell = in.Get<Tell>();
  const auto op = std::make_shared<Op>();
  op->tell = tell;
  const Id id = ++last_id_;
  if (tell != Tell::kRing) {
    const Id closes = close_from_callback_;
    Connector closing;
    if (tell == Tell::kCallbackCloses) closing = Find(connectors_, closes).connector;
    op->request = Request([weak = std::weak_ptr<Op>(op), tell, closing](const Status& status) mutable {
      const std::shared_ptr<Op> self = weak.lock();
      if (self == nullptr) return;
      if (tell == Tell::kCallbackCloses) (void)closing.Close();
      if (tell == Tell::kCallbackSleeps) std::this_thread::sleep_for(std::chrono::seconds(1));
      const std::lock_guard lock(self->mutex);
      self->told = status;
      ++self->completions;
    });
  }
  op->request.context = op.get();
  ops_[id] = op;
  const Status status = call(&op->request);
  op->inline_status = status;
  out.Put(status).Put(id);
}

void ActorState::CloseAny(Id id, bool ndk, nd::Request* request, Status* status) {
  if (const auto it = connectors_.find(id); it != connectors_.end()) {
    *status = it->second->connector.Close(request);
  } else if (const auto l = listeners_.find(id); l != listeners_.end()) {
    *status = l->second->listener.Close(request);
  } else if (const auto e = endpoints_.find(id); e != endpoints_.end()) {
    *status = e->second->Close(request);
  } else if (const auto q = qps_.find(id); q != qps_.end()) {
    *status = ndk ? q->second->NdkClose(request) : q->second->Close(request);
  } else if (const auto c = cqs_.find(id); c != cqs_.end()) {
    *status = c->second->Close(request);
  } else if (const auto s = srqs_.find(id); s != srqs_.end()) {
    *status = s->second->Close(request);
  } else {
    std::abort();
  }
}

bool ActorState::AnswerConnection(Verb verb, Reader& in, Writer& out) {
  switch (verb) {
    case Verb::kBind: {
      const Id id = in.U32();
      const Address local = in.Address();
      if (connectors_.contains(id)) {
        out.Put(Find(connectors_, id).connector.Bind(local));
      } else {
        out.Put(Find(listeners_, id).listener.Bind(local));
      }
      return true;
    }
    case Verb::kListen: {
      Listener& listener = Find(listeners_, in.U32()).listener;
      out.Put(listener.Listen(in.U32()));
      return true;
    }
    case Verb::kGetLocalAddress: {
      const Id id = in.U32();
      const Result<Address> local =
          connectors_.contains(id)  ? Find(connectors_, id).connector.GetLocalAddress()
          : listeners_.contains(id) ? Find(listeners_, id).listener.GetLocalAddress()
                                    : Find(endpoints_, id).GetLocalAddress();
      out.Put(local.ok() ? Status() : local.status()).Put(local.ok() ? *local : Address());
      return true;
    }
    case Verb::kGetPeerAddress: {
      const Result<Address> peer = Find(connectors_, in.U32()).connector.GetPeerAddress();
      out.Put(peer.ok() ? Status() : peer.status()).Put(peer.ok() ? *peer : Address());
      return true;
    }
    case Verb::kGetAddressRaw: {
      const Id id = in.U32();
      const bool peer = in.Bool();
      GuardedBuffer buffer(in);
      std::size_t length = buffer.capacity;
      Status status;
      if (connectors_.contains(id)) {
        const Connector& connector = Find(connectors_, id).connector;
        status = peer ? connector.GetPeerAddress(buffer.data(), &length)
                      : connector.GetLocalAddress(buffer.data(), &length);
      } else if (listeners_.contains(id)) {
        status = Find(listeners_, id).listener.GetLocalAddress(buffer.data(), &length);
      } else {
        status = Find(endpoints_, id).GetLocalAddress(buffer.data(), &length);
      }
      out.Put(status).Put(static_cast<std::uint64_t>(length)).Put(buffer.bytes);
      return true;
    }
    case Verb::kConnect:
    case Verb::kNdkConnect:
    case Verb::kConnectShared: {
      Connector& connector = Find(connectors_, in.U32()).connector;
      QueuePair& queue_pair = Find(qps_, in.U32());
      const Address source = in.Address();
      const Id endpoint = in.U32();
      const Address remote = in.Address();
      ConnectOptions options;
      options.limits = in.Limits();
      const DataArgument data(in);
      options.private_data = data.span();
      close_from_callback_ = in.U32();
      Begin(in, out, [&](Request* request) {
        if (verb == Verb::kConnect) return connector.Connect(queue_pair, remote, options, request);
        if (verb == Verb::kNdkConnect) {
          return connector.NdkConnect(queue_pair, source, remote, options, request);
        }
        return connector.NdkConnectWithSharedEndpoint(queue_pair, Find(endpoints_, endpoint), remote, options,
                                                      request);
      });
      return true;
    }
    case Verb::kCompleteConnect: {
      Connector& connector = Find(connectors_, in.U32()).connector;
      Begin(in, out, [&](Request* request) { return connector.CompleteConnect(request); });
      return true;
    }
    case Verb::kAccept: {
      Connector& connector = Find(connectors_, in.U32()).connector;
      QueuePair& queue_pair = Find(qps_, in.U32());
      ConnectOptions options;
      options.limits = in.Limits();
      const DataArgument data(in);
      options.private_data = data.span();
      Begin(in, out, [&](Request* request) { return connector.Accept(queue_pair, options, request); });
      return true;
    }
    case Verb::kReject: {
      Connector& connector = Find(connectors_, in.U32()).connector;
      const DataArgument data(in);
      out.Put(connector.Reject(data.span()));
      return true;
    }
    case Verb::kGetReadLimits: {
      const Connector& connector = Find(connectors_, in.U32()).connector;
      const bool want_in = in.Bool();
      const bool want_out = in.Bool();
      ReadLimits limits{~0U, ~0U};
      out.Put(connector.GetReadLimits(want_in ? &limits.inbound : nullptr,
                                      want_out ? &limits.outbound : nullptr));
      out.Put(limits);
      return true;
    }
    case Verb::kGetPrivateData: {
      const Connector& connector = Find(connectors_, in.U32()).connector;
      GuardedBuffer buffer(in);
      std::size_t length = buffer.capacity;
      out.Put(connector.GetPrivateData(buffer.data(), &length));
      out.Put(static_cast<std::uint64_t>(length)).Put(buffer.bytes);
      return true;
    }
    case Verb::kNdkGetConnectionData: {
      const Connector& connector = Find(connectors_, in.U32()).connector;
      GuardedBuffer buffer(in);
      std::size_t length = buffer.capacity;
      ReadLimits limits{~0U, ~0U};
      out.Put(connector.NdkGetConnectionData(&limits.inbound, &limits.outbound, buffer.data(), &length));
      out.Put(static_cast<std::uint64_t>(length)).Put(buffer.bytes).Put(limits);
      return true;
    }
    case Verb::kNotifyDisconnect: {
      Connector& connector = Find(connectors_, in.U32()).connector;
      Begin(in, out, [&](Request* request) { return connector.NotifyDisconnect(request); });
      return true;
    }
    case Verb::kSetDisconnectCallback: {
      ConnectorObject& object = Find(connectors_, in.U32());
      object.connector.SetDisconnectCallback(
          [reasons = object.reasons, mutex = object.mutex](DisconnectReason reason) {
            const std::lock_guard lock(*mutex);
            reasons->push_back(static_cast<std::uint8_t>(reason));
          });
      return true;
    }
    case Verb::kDisconnectEvents: {
      const ConnectorObject& object = Find(connectors_, in.U32());
      const std::lock_guard lock(*object.mutex);
      out.Put(*object.reasons);
      return true;
    }
    case Verb::kDisconnectReason:
      out.Put(Find(connectors_, in.U32()).connector.disconnect_reason());
      return true;
    case Verb::kDisconnect: {
      Connector& connector = Find(connectors_, in.U32()).connector;
      Begin(in, out, [&](Request* request) { return connector.Disconnect(request); });
      return true;
    }
    case Verb::kCancel: {
      const Id id = in.U32();
      out.Put(connectors_.contains(id) ? Find(connectors_, id).connector.Cancel()
                                       : Find(listeners_, id).listener.Cancel());
      return true;
    }
    case Verb::kClose: {
      const Id id = in.U32();
      const bool ndk = in.Bool();
      Begin(in, out, [&](Request* request) {
        Status status;
        CloseAny(id, ndk, request, &status);
        return status;
      });
      return true;
    }
    case Verb::kDrop: {
      const Id id = in.U32();
      connectors_.erase(id);
      listeners_.erase(id);
      endpoints_.erase(id);
      qps_.erase(id);
      cqs_.erase(id);
      srqs_.erase(id);
      windows_.erase(id);
      memories_.erase(id);
      return true;
    }
    case Verb::kGetConnectionRequest: {
      Listener& listener = Find(listeners_, in.U32()).listener;
      Connector& connector = Find(connectors_, in.U32()).connector;
      Begin(in, out, [&](Request* request) { return listener.GetConnectionRequest(connector, request); });
      return true;
    }
    case Verb::kControlConnectEvents: {
      Listener& listener = Find(listeners_, in.U32()).listener;
      out.Put(listener.ControlConnectEvents(in.Bool()));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace nd::testing
