// SPDX-License-Identifier: Apache-2.0
// IND2Adapter: a session with the broker. Objects that it made live without it. See ndspi_win.h for the
// contract.
#pragma once

#include <utility>

#include "nd-provider/object_win.h"
#include "nd/adapter.h"

namespace nd::spi {

class AdapterObject final : public Object<IND2Adapter> {
 public:
  explicit AdapterObject(Adapter opened) : adapter_(std::move(opened)) {}

  HRESULT STDMETHODCALLTYPE CreateOverlappedFile(HANDLE* file) override;
  HRESULT STDMETHODCALLTYPE Query(AdapterProperties* properties, ULONG* size) override;
  HRESULT STDMETHODCALLTYPE QueryAddressList(SOCKET_ADDRESS_LIST* list, ULONG* size) override;
  // Processors of notifications cannot be chosen: `group` and `affinity` have no effect.
  HRESULT STDMETHODCALLTYPE CreateCompletionQueue(REFIID iid, HANDLE file, ULONG depth, USHORT group,
                                                  KAFFINITY affinity, void** made) override;
  HRESULT STDMETHODCALLTYPE CreateMemoryRegion(REFIID iid, HANDLE file, void** made) override;
  HRESULT STDMETHODCALLTYPE CreateMemoryWindow(REFIID iid, void** made) override;
  HRESULT STDMETHODCALLTYPE CreateSharedReceiveQueue(REFIID iid, HANDLE file, ULONG depth, ULONG max_sge,
                                                     ULONG notify_threshold, USHORT group, KAFFINITY affinity,
                                                     void** made) override;
  HRESULT STDMETHODCALLTYPE CreateQueuePair(REFIID iid, IUnknown* receive_cq, IUnknown* initiator_cq,
                                            void* context, ULONG receive_depth, ULONG initiator_depth,
                                            ULONG max_receive_sge, ULONG max_initiator_sge, ULONG inline_size,
                                            void** made) override;
  HRESULT STDMETHODCALLTYPE CreateQueuePairWithSrq(REFIID iid, IUnknown* receive_cq, IUnknown* initiator_cq,
                                                   IUnknown* receive_queue, void* context,
                                                   ULONG initiator_depth, ULONG max_initiator_sge,
                                                   ULONG inline_size, void** made) override;
  HRESULT STDMETHODCALLTYPE CreateConnector(REFIID iid, HANDLE file, void** made) override;
  HRESULT STDMETHODCALLTYPE CreateListener(REFIID iid, HANDLE file, void** made) override;

 private:
  Adapter adapter_;
};

}  // namespace nd::spi
