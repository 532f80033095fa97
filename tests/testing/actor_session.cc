// SPDX-License-Identifier: Apache-2.0
// Verbs about adapters and about making objects.
#include "tests/testing/actor_state.h"

namespace nd::testing {
namespace {

void PutInfo(const AdapterInfo& info, Writer& out) {
  out.Put(info.name).Put(info.provider).Put(info.adapter_id).Put(info.vendor_id).Put(info.device_id);
  out.Put(info.technology).Put(info.flags).Put(info.max_registration_size).Put(info.max_window_size);
  out.Put(info.max_initiator_sge).Put(info.max_receive_sge).Put(info.max_read_sge);
  out.Put(info.max_transfer_length).Put(info.max_inline_data_size);
  out.Put(info.max_inbound_read_limit).Put(info.max_outbound_read_limit);
  out.Put(info.max_receive_queue_depth).Put(info.max_initiator_queue_depth);
  out.Put(info.max_shared_receive_queue_depth).Put(info.max_completion_queue_depth);
  out.Put(info.inline_request_threshold).Put(info.large_request_threshold);
  out.Put(info.max_caller_data).Put(info.max_callee_data).Put(info.addresses);
}

}  // namespace

bool ActorState::AnswerSession(Verb verb, Reader& in, Writer& out) {
  switch (verb) {
    case Verb::kOpen: {
      OpenOptions options;
      options.broker = in.Text();
      options.adapter = in.Text();
      options.local = in.Address();
      options.application = in.Text();
      options.progress_thread = in.Bool();
      options.reconnect = in.Bool();
      Result<Adapter> adapter = Adapter::Open(options);
      out.Put(adapter.ok() ? Status() : adapter.status());
      if (!adapter.ok()) return out.Put(Id{0}), true;
      adapter->SetSessionCallback([events = session_events_, mutex = session_mutex_](bool connected) {
        const std::lock_guard lock(*mutex);
        events->push_back(connected ? 1 : 0);
      });
      out.Put(Keep(adapters_, std::move(*adapter)));
      return true;
    }
    case Verb::kQueryAddressList: {
      OpenOptions options;
      options.broker = in.Text();
      const Result<std::vector<Address>> list = Adapter::QueryAddressList(options);
      out.Put(list.ok() ? Status() : list.status()).Put(list.ok() ? *list : std::vector<Address>());
      return true;
    }
    case Verb::kInfo:
      PutInfo(Find(adapters_, in.U32()).info(), out);
      return true;
    case Verb::kResolveAddress: {
      Adapter& adapter = Find(adapters_, in.U32());
      const Result<Address> local = adapter.ResolveAddress(in.Address());
      out.Put(local.ok() ? Status() : local.status()).Put(local.ok() ? *local : Address());
      return true;
    }
    case Verb::kCheckAddress: {
      Adapter& adapter = Find(adapters_, in.U32());
      out.Put(adapter.CheckAddress(in.Address()));
      return true;
    }
    case Verb::kConnected:
      out.Put(Find(adapters_, in.U32()).connected());
      return true;
    case Verb::kSessionEvents: {
      const std::lock_guard lock(*session_mutex_);
      out.Put(*session_events_);
      return true;
    }
    case Verb::kCloseAdapter:
      out.Put(Find(adapters_, in.U32()).Close());
      return true;
    case Verb::kCreateConnector: {
      Result<Connector> made = Find(adapters_, in.U32()).CreateConnector();
      out.Put(made.ok() ? Status() : made.status());
      out.Put(made.ok() ? Keep(connectors_, ConnectorObject{.connector = *made}) : Id{0});
      return true;
    }
    case Verb::kCreateListener: {
      Result<Listener> made = Find(adapters_, in.U32()).CreateListener();
      out.Put(made.ok() ? Status() : made.status());
      out.Put(made.ok() ? Keep(listeners_, ListenerObject{.listener = *made}) : Id{0});
      return true;
    }
    case Verb::kCreateSharedEndpoint: {
      Adapter& adapter = Find(adapters_, in.U32());
      Result<SharedEndpoint> made = adapter.CreateSharedEndpoint(in.Address());
      out.Put(made.ok() ? Status() : made.status());
      out.Put(made.ok() ? Keep(endpoints_, std::move(*made)) : Id{0});
      return true;
    }
    case Verb::kNdkListen: {
      Adapter& adapter = Find(adapters_, in.U32());
      ListenerObject object;
      Result<Listener> made =
          adapter.NdkListen(in.Address(), [incoming = object.incoming](Connector connector) {
            const std::lock_guard lock(incoming->mutex);
            incoming->waiting.push_back(std::move(connector));
          });
      out.Put(made.ok() ? Status() : made.status());
      if (!made.ok()) return out.Put(Id{0}), true;
      object.listener = *made;
      out.Put(Keep(listeners_, std::move(object)));
      return true;
    }
    case Verb::kTakeConnectEvent: {
      ListenerObject& listener = Find(listeners_, in.U32());
      const std::lock_guard lock(listener.incoming->mutex);
      if (listener.incoming->waiting.empty()) return out.Put(Id{0}), true;
      out.Put(Keep(connectors_, ConnectorObject{.connector = listener.incoming->waiting.front()}));
      listener.incoming->waiting.pop_front();
      return true;
    }
    default:
      return false;
  }
}

}  // namespace nd::testing
