// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/adapter_win.h"

#include "base/environment.h"
#include "nd-provider/address_list_win.h"
#include "nd-provider/argument_rules.h"
#include "nd-provider/completion_queue_win.h"
#include "nd-provider/connector_win.h"
#include "nd-provider/memory_win.h"
#include "nd-provider/queue_pair_win.h"
#include "nd-provider/shared_receive_queue_win.h"
#include "nd-provider/wake_sockets_win.h"

namespace nd::spi {
namespace {

AdapterProperties PropertiesOf(const AdapterInfo& info) {
  AdapterProperties of{};
  of.version = kVersion2;
  of.vendor_id = static_cast<UINT16>(info.vendor_id);
  of.device_id = static_cast<UINT16>(info.device_id);
  of.adapter_id = info.adapter_id;
  of.max_registration_size = info.max_registration_size;
  of.max_window_size = info.max_window_size;
  of.max_initiator_sge = info.max_initiator_sge;
  of.max_receive_sge = info.max_receive_sge;
  of.max_read_sge = info.max_read_sge;
  of.max_transfer_length = info.max_transfer_length;
  of.max_inline_data_size = info.max_inline_data_size;
  of.max_inbound_read_limit = info.max_inbound_read_limit;
  of.max_outbound_read_limit = info.max_outbound_read_limit;
  of.max_receive_queue_depth = info.max_receive_queue_depth;
  of.max_initiator_queue_depth = info.max_initiator_queue_depth;
  of.max_shared_receive_queue_depth = info.max_shared_receive_queue_depth;
  of.max_completion_queue_depth = info.max_completion_queue_depth;
  of.inline_request_threshold = info.inline_request_threshold;
  of.large_request_threshold = info.large_request_threshold;
  of.max_caller_data = info.max_caller_data;
  of.max_callee_data = info.max_callee_data;
  of.flags = info.flags & ~static_cast<ULONG>(kAdapterNoDatagrams);
  return of;
}

// Checks what every function that makes an object takes; on success *out is null.
bool Ready(void** out) {
  if (out != nullptr) *out = nullptr;
  return out != nullptr;
}

std::uint32_t Elements(ULONG asked, const Adapter& adapter) {
  static const Compatibility chosen = CompatibilityOf(EnvironmentVariable("NDBROKER_ND_COMPAT"));
  return InitiatorSges(asked, adapter.info().max_initiator_sge, chosen);
}

}  // namespace

HRESULT AdapterObject::CreateOverlappedFile(HANDLE* file) {
  if (file == nullptr) return Hr(StatusCode::kInvalidParameter1);
  os::Handle made = OpenWaitFile();
  *file = made.release();
  return Hr(*file != nullptr ? StatusCode::kSuccess : StatusCode::kInsufficientResources);
}

HRESULT AdapterObject::Query(AdapterProperties* properties, ULONG* size) {
  if (size == nullptr) return Hr(StatusCode::kInvalidParameter2);
  const bool fits = properties != nullptr && *size >= sizeof *properties;
  *size = sizeof *properties;
  if (!fits) return Hr(StatusCode::kBufferOverflow);
  // The version on entry is not judged: programs leave it uninitialised.
  *properties = PropertiesOf(adapter_.info());
  return Hr(StatusCode::kSuccess);
}

HRESULT AdapterObject::QueryAddressList(SOCKET_ADDRESS_LIST* list, ULONG* size) {
  return Hr(WriteAddressList(adapter_.info().addresses, list, size));
}

HRESULT AdapterObject::CreateCompletionQueue(REFIID iid, HANDLE file, ULONG depth, USHORT /*group*/,
                                             KAFFINITY /*affinity*/, void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto requests = OverlappedRequests::Make(file);
    if (!requests.ok()) return Hr(requests.status());
    auto queue = adapter_.CreateCompletionQueue(depth);
    if (!queue.ok()) return Hr(OfCreateCompletionQueue(queue.code()));
    const Ref<CompletionQueueObject> object(new CompletionQueueObject(*requests, *queue));
    if (Status status = object->Start(); !status.ok()) return Hr(status);
    return object->QueryInterface(iid, made);
  });
}

HRESULT AdapterObject::CreateMemoryRegion(REFIID iid, HANDLE file, void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto requests = OverlappedRequests::Make(file);
    if (!requests.ok()) return Hr(requests.status());
    return Give<MemoryRegionObject>(iid, made, *requests, adapter_);
  });
}

HRESULT AdapterObject::CreateMemoryWindow(REFIID iid, void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto window = adapter_.CreateMemoryWindow();
    return window.ok() ? Give<MemoryWindowObject>(iid, made, *window) : Hr(window.status());
  });
}

HRESULT AdapterObject::CreateSharedReceiveQueue(REFIID iid, HANDLE file, ULONG depth, ULONG max_sge,
                                                ULONG notify_threshold, USHORT /*group*/,
                                                KAFFINITY /*affinity*/, void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto requests = OverlappedRequests::Make(file);
    if (!requests.ok()) return Hr(requests.status());
    auto queue = adapter_.CreateSharedReceiveQueue(depth, max_sge);
    if (!queue.ok()) return Hr(OfCreateSharedReceiveQueue(queue.code()));
    return Give<SharedReceiveQueueObject>(iid, made, *requests, *queue, notify_threshold);
  });
}

HRESULT AdapterObject::CreateQueuePair(REFIID iid, IUnknown* receive_cq, IUnknown* initiator_cq,
                                       void* context, ULONG receive_depth, ULONG initiator_depth,
                                       ULONG max_receive_sge, ULONG max_initiator_sge, ULONG inline_size,
                                       void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto receives = Find<CompletionQueueObject>(receive_cq);
    if (!receives) return Hr(StatusCode::kInvalidParameter2);
    auto initiates = Find<CompletionQueueObject>(initiator_cq);
    if (!initiates) return Hr(StatusCode::kInvalidParameter3);
    QueuePairOptions options;
    options.receive_cq = &receives->queue;
    options.initiator_cq = &initiates->queue;
    options.context = context;
    options.receive_depth = receive_depth;
    options.initiator_depth = initiator_depth;
    options.max_receive_sge = max_receive_sge;
    options.max_initiator_sge = Elements(max_initiator_sge, adapter_);
    options.inline_data_size = inline_size;
    auto pair = adapter_.CreateQueuePair(options);
    if (!pair.ok()) return Hr(OfCreateQueuePair(pair.code()));
    return Give<QueuePairObject>(iid, made, *pair, std::move(receives), std::move(initiates),
                                 Ref<SharedReceiveQueueObject>());
  });
}

HRESULT AdapterObject::CreateQueuePairWithSrq(REFIID iid, IUnknown* receive_cq, IUnknown* initiator_cq,
                                              IUnknown* receive_queue, void* context, ULONG initiator_depth,
                                              ULONG max_initiator_sge, ULONG inline_size, void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto receives = Find<CompletionQueueObject>(receive_cq);
    if (!receives) return Hr(StatusCode::kInvalidParameter2);
    auto initiates = Find<CompletionQueueObject>(initiator_cq);
    if (!initiates) return Hr(StatusCode::kInvalidParameter3);
    auto shared = Find<SharedReceiveQueueObject>(receive_queue);
    if (!shared) return Hr(StatusCode::kInvalidParameter4);
    QueuePairOptions options;
    options.receive_cq = &receives->queue;
    options.initiator_cq = &initiates->queue;
    options.shared_receive_queue = &shared->queue;
    options.context = context;
    options.initiator_depth = initiator_depth;
    options.max_initiator_sge = Elements(max_initiator_sge, adapter_);
    options.inline_data_size = inline_size;
    auto pair = adapter_.CreateQueuePair(options);
    if (!pair.ok()) return Hr(OfCreateQueuePairWithSrq(pair.code()));
    return Give<QueuePairObject>(iid, made, *pair, std::move(receives), std::move(initiates),
                                 std::move(shared));
  });
}

HRESULT AdapterObject::CreateConnector(REFIID iid, HANDLE file, void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto requests = OverlappedRequests::Make(file);
    if (!requests.ok()) return Hr(requests.status());
    auto connector = adapter_.CreateConnector();
    if (!connector.ok()) return Hr(connector.status());
    return Give<ConnectorObject>(iid, made, *requests, *connector);
  });
}

HRESULT AdapterObject::CreateListener(REFIID iid, HANDLE file, void** made) {
  if (!Ready(made)) return E_POINTER;
  return Guarded([&] {
    auto requests = OverlappedRequests::Make(file);
    if (!requests.ok()) return Hr(requests.status());
    auto listener = adapter_.CreateListener();
    if (!listener.ok()) return Hr(listener.status());
    return Give<ListenerObject>(iid, made, *requests, *listener);
  });
}

}  // namespace nd::spi
