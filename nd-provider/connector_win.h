// SPDX-License-Identifier: Apache-2.0
// IND2Connector and IND2Listener. See ndspi_win.h for the contract.
#pragma once

#include <memory>
#include <utility>

#include "nd-provider/object_win.h"
#include "nd-provider/pending_calls_win.h"
#include "nd/connector.h"

namespace nd::spi {

class ConnectorObject final : public OverlappedObject<IND2Connector> {
 public:
  ConnectorObject(std::shared_ptr<OverlappedRequests> requests, Connector made)
      : OverlappedObject(requests), connector(std::move(made)), calls_(std::move(requests)) {}

  HRESULT STDMETHODCALLTYPE CancelOverlappedRequests() override;
  HRESULT STDMETHODCALLTYPE Bind(const sockaddr* address, ULONG length) override;
  HRESULT STDMETHODCALLTYPE Connect(IUnknown* queue_pair, const sockaddr* destination, ULONG length,
                                    ULONG inbound_read_limit, ULONG outbound_read_limit,
                                    const void* private_data, ULONG private_data_length,
                                    OVERLAPPED* overlapped) override;
  HRESULT STDMETHODCALLTYPE CompleteConnect(OVERLAPPED* overlapped) override;
  HRESULT STDMETHODCALLTYPE Accept(IUnknown* queue_pair, ULONG inbound_read_limit, ULONG outbound_read_limit,
                                   const void* private_data, ULONG private_data_length,
                                   OVERLAPPED* overlapped) override;
  HRESULT STDMETHODCALLTYPE Reject(const void* private_data, ULONG private_data_length) override;
  HRESULT STDMETHODCALLTYPE GetReadLimits(ULONG* inbound, ULONG* outbound) override;
  HRESULT STDMETHODCALLTYPE GetPrivateData(void* private_data, ULONG* length) override;
  HRESULT STDMETHODCALLTYPE GetLocalAddress(sockaddr* address, ULONG* length) override;
  HRESULT STDMETHODCALLTYPE GetPeerAddress(sockaddr* address, ULONG* length) override;
  HRESULT STDMETHODCALLTYPE NotifyDisconnect(OVERLAPPED* overlapped) override;
  HRESULT STDMETHODCALLTYPE Disconnect(OVERLAPPED* overlapped) override;

  Connector connector;

 private:
  PendingCalls calls_;
};

class ListenerObject final : public OverlappedObject<IND2Listener> {
 public:
  ListenerObject(std::shared_ptr<OverlappedRequests> requests, Listener made)
      : OverlappedObject(requests), listener_(std::move(made)), calls_(std::move(requests)) {}

  HRESULT STDMETHODCALLTYPE CancelOverlappedRequests() override;
  HRESULT STDMETHODCALLTYPE Bind(const sockaddr* address, ULONG length) override;
  HRESULT STDMETHODCALLTYPE Listen(ULONG backlog) override;
  HRESULT STDMETHODCALLTYPE GetLocalAddress(sockaddr* address, ULONG* length) override;
  HRESULT STDMETHODCALLTYPE GetConnectionRequest(IUnknown* connector, OVERLAPPED* overlapped) override;

 private:
  Listener listener_;
  PendingCalls calls_;
};

}  // namespace nd::spi
