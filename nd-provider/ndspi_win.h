// SPDX-License-Identifier: Apache-2.0
// The interfaces of Network Direct, NDSPI version 2, written from its public documentation:
// NetworkDirectSPI.md and the page of each interface. The binary form is the contract: the order of the
// functions of an interface, the numbers of the interfaces, and the layout of the structures.
// tests/windows/ms_layout.cc compares them with Microsoft's own declarations where those are at hand.
//
// Every function may be called from any thread, except that the caller serialises posts to one queue of a
// queue pair. Functions that take an OVERLAPPED answer ND_PENDING, and one completion follows; every other
// answer is final. All answers are numbers of NTSTATUS.
#pragma once

#include <winsock2.h>

#include <windows.h>

#include <unknwn.h>

#include <cstdint>

#include "nd/types.h"

namespace nd::spi {

inline constexpr ULONG kVersion2 = 0x20000;

// ND_MR_FLAG_DO_NOT_SECURE_VM: about caches of registrations, of which this provider has none.
inline constexpr ULONG kDoNotSecureMemory = 0x80000000;

// ND2_ADAPTER_INFO.
struct AdapterProperties {
  ULONG version;
  UINT16 vendor_id;
  UINT16 device_id;
  UINT64 adapter_id;
  SIZE_T max_registration_size;
  SIZE_T max_window_size;
  ULONG max_initiator_sge;
  ULONG max_receive_sge;
  ULONG max_read_sge;
  ULONG max_transfer_length;
  ULONG max_inline_data_size;
  ULONG max_inbound_read_limit;
  ULONG max_outbound_read_limit;
  ULONG max_receive_queue_depth;
  ULONG max_initiator_queue_depth;
  ULONG max_shared_receive_queue_depth;
  ULONG max_completion_queue_depth;
  ULONG inline_request_threshold;
  ULONG large_request_threshold;
  ULONG max_caller_data;
  ULONG max_callee_data;
  ULONG flags;
};

// ND2_RESULT. The numbers of ND2_REQUEST_TYPE are those of nd::RequestType.
struct RequestResult {
  HRESULT status;
  ULONG bytes_transferred;
  void* queue_pair_context;
  void* request_context;
  INT32 request_type;
};

// ND2_SGE has the layout of nd::Sge, so that posting converts nothing.
static_assert(sizeof(Sge) == 16 && offsetof(Sge, length) == 8 && offsetof(Sge, local_token) == 12);

struct IND2Overlapped : IUnknown {
  virtual HRESULT STDMETHODCALLTYPE CancelOverlappedRequests() = 0;
  virtual HRESULT STDMETHODCALLTYPE GetOverlappedResult(OVERLAPPED* overlapped, BOOL wait) = 0;
};

struct IND2CompletionQueue : IND2Overlapped {
  virtual HRESULT STDMETHODCALLTYPE GetNotifyAffinity(USHORT* group, KAFFINITY* affinity) = 0;
  virtual HRESULT STDMETHODCALLTYPE Resize(ULONG depth) = 0;
  virtual HRESULT STDMETHODCALLTYPE Notify(ULONG type, OVERLAPPED* overlapped) = 0;
  virtual ULONG STDMETHODCALLTYPE GetResults(RequestResult* results, ULONG count) = 0;
};

struct IND2SharedReceiveQueue : IND2Overlapped {
  virtual HRESULT STDMETHODCALLTYPE GetNotifyAffinity(USHORT* group, KAFFINITY* affinity) = 0;
  virtual HRESULT STDMETHODCALLTYPE Modify(ULONG depth, ULONG notify_threshold) = 0;
  virtual HRESULT STDMETHODCALLTYPE Notify(OVERLAPPED* overlapped) = 0;
  virtual HRESULT STDMETHODCALLTYPE Receive(void* request_context, const Sge* sges, ULONG count) = 0;
};

struct IND2MemoryWindow : IUnknown {
  virtual UINT32 STDMETHODCALLTYPE GetRemoteToken() = 0;
};

struct IND2MemoryRegion : IND2Overlapped {
  virtual HRESULT STDMETHODCALLTYPE Register(const void* buffer, SIZE_T size, ULONG flags,
                                             OVERLAPPED* overlapped) = 0;
  virtual HRESULT STDMETHODCALLTYPE Deregister(OVERLAPPED* overlapped) = 0;
  virtual UINT32 STDMETHODCALLTYPE GetLocalToken() = 0;
  virtual UINT32 STDMETHODCALLTYPE GetRemoteToken() = 0;
};

struct IND2QueuePair : IUnknown {
  virtual HRESULT STDMETHODCALLTYPE Flush() = 0;
  virtual HRESULT STDMETHODCALLTYPE Send(void* request_context, const Sge* sges, ULONG count,
                                         ULONG flags) = 0;
  virtual HRESULT STDMETHODCALLTYPE Receive(void* request_context, const Sge* sges, ULONG count) = 0;
  virtual HRESULT STDMETHODCALLTYPE Bind(void* request_context, IUnknown* region, IUnknown* window,
                                         const void* buffer, SIZE_T size, ULONG flags) = 0;
  virtual HRESULT STDMETHODCALLTYPE Invalidate(void* request_context, IUnknown* window, ULONG flags) = 0;
  virtual HRESULT STDMETHODCALLTYPE Read(void* request_context, const Sge* sges, ULONG count,
                                         UINT64 remote_address, UINT32 remote_token, ULONG flags) = 0;
  virtual HRESULT STDMETHODCALLTYPE Write(void* request_context, const Sge* sges, ULONG count,
                                          UINT64 remote_address, UINT32 remote_token, ULONG flags) = 0;
};

struct IND2Connector : IND2Overlapped {
  virtual HRESULT STDMETHODCALLTYPE Bind(const sockaddr* address, ULONG length) = 0;
  virtual HRESULT STDMETHODCALLTYPE Connect(IUnknown* queue_pair, const sockaddr* destination, ULONG length,
                                            ULONG inbound_read_limit, ULONG outbound_read_limit,
                                            const void* private_data, ULONG private_data_length,
                                            OVERLAPPED* overlapped) = 0;
  virtual HRESULT STDMETHODCALLTYPE CompleteConnect(OVERLAPPED* overlapped) = 0;
  virtual HRESULT STDMETHODCALLTYPE Accept(IUnknown* queue_pair, ULONG inbound_read_limit,
                                           ULONG outbound_read_limit, const void* private_data,
                                           ULONG private_data_length, OVERLAPPED* overlapped) = 0;
  virtual HRESULT STDMETHODCALLTYPE Reject(const void* private_data, ULONG private_data_length) = 0;
  virtual HRESULT STDMETHODCALLTYPE GetReadLimits(ULONG* inbound, ULONG* outbound) = 0;
  virtual HRESULT STDMETHODCALLTYPE GetPrivateData(void* private_data, ULONG* length) = 0;
  virtual HRESULT STDMETHODCALLTYPE GetLocalAddress(sockaddr* address, ULONG* length) = 0;
  virtual HRESULT STDMETHODCALLTYPE GetPeerAddress(sockaddr* address, ULONG* length) = 0;
  virtual HRESULT STDMETHODCALLTYPE NotifyDisconnect(OVERLAPPED* overlapped) = 0;
  virtual HRESULT STDMETHODCALLTYPE Disconnect(OVERLAPPED* overlapped) = 0;
};

struct IND2Listener : IND2Overlapped {
  virtual HRESULT STDMETHODCALLTYPE Bind(const sockaddr* address, ULONG length) = 0;
  virtual HRESULT STDMETHODCALLTYPE Listen(ULONG backlog) = 0;
  virtual HRESULT STDMETHODCALLTYPE GetLocalAddress(sockaddr* address, ULONG* length) = 0;
  virtual HRESULT STDMETHODCALLTYPE GetConnectionRequest(IUnknown* connector, OVERLAPPED* overlapped) = 0;
};

struct IND2Adapter : IUnknown {
  virtual HRESULT STDMETHODCALLTYPE CreateOverlappedFile(HANDLE* file) = 0;
  virtual HRESULT STDMETHODCALLTYPE Query(AdapterProperties* properties, ULONG* size) = 0;
  virtual HRESULT STDMETHODCALLTYPE QueryAddressList(SOCKET_ADDRESS_LIST* list, ULONG* size) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateCompletionQueue(REFIID iid, HANDLE file, ULONG depth, USHORT group,
                                                          KAFFINITY affinity, void** made) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateMemoryRegion(REFIID iid, HANDLE file, void** made) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateMemoryWindow(REFIID iid, void** made) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateSharedReceiveQueue(REFIID iid, HANDLE file, ULONG depth,
                                                             ULONG max_sge, ULONG notify_threshold,
                                                             USHORT group, KAFFINITY affinity,
                                                             void** made) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateQueuePair(REFIID iid, IUnknown* receive_cq, IUnknown* initiator_cq,
                                                    void* context, ULONG receive_depth, ULONG initiator_depth,
                                                    ULONG max_receive_sge, ULONG max_initiator_sge,
                                                    ULONG inline_size, void** made) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateQueuePairWithSrq(REFIID iid, IUnknown* receive_cq,
                                                           IUnknown* initiator_cq, IUnknown* receive_queue,
                                                           void* context, ULONG initiator_depth,
                                                           ULONG max_initiator_sge, ULONG inline_size,
                                                           void** made) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateConnector(REFIID iid, HANDLE file, void** made) = 0;
  virtual HRESULT STDMETHODCALLTYPE CreateListener(REFIID iid, HANDLE file, void** made) = 0;
};

struct IND2Provider : IUnknown {
  virtual HRESULT STDMETHODCALLTYPE QueryAddressList(SOCKET_ADDRESS_LIST* list, ULONG* size) = 0;
  virtual HRESULT STDMETHODCALLTYPE ResolveAddress(const sockaddr* address, ULONG length,
                                                   UINT64* adapter_id) = 0;
  virtual HRESULT STDMETHODCALLTYPE OpenAdapter(REFIID iid, UINT64 adapter_id, void** made) = 0;
};

// The number of an interface.
template <typename Interface>
inline constexpr GUID kIid{};
template <>
inline constexpr GUID kIid<IUnknown>{0, 0, 0, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};
template <>
inline constexpr GUID kIid<IClassFactory>{1, 0, 0, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};
template <>
inline constexpr GUID kIid<IND2Overlapped>{
    0xabf72719, 0xb016, 0x4a40, {0xa6, 0xf7, 0x62, 0x27, 0x91, 0xa7, 0x04, 0x4c}};
template <>
inline constexpr GUID kIid<IND2CompletionQueue>{
    0x20cc445e, 0x64a0, 0x4cbb, {0xaa, 0x75, 0xf6, 0xa7, 0x25, 0x1f, 0xda, 0x9e}};
template <>
inline constexpr GUID kIid<IND2SharedReceiveQueue>{
    0xaabd67dc, 0x459a, 0x4db1, {0x82, 0x6b, 0x56, 0xcf, 0xcc, 0x27, 0x88, 0x83}};
template <>
inline constexpr GUID kIid<IND2MemoryWindow>{
    0x070fe1f5, 0x0ab5, 0x4361, {0x88, 0xdb, 0x97, 0x4b, 0xa7, 0x04, 0xd4, 0xb9}};
template <>
inline constexpr GUID kIid<IND2MemoryRegion>{
    0x55dfea2f, 0xbc56, 0x4982, {0x8a, 0x45, 0x03, 0x01, 0xbe, 0x46, 0xc4, 0x13}};
template <>
inline constexpr GUID kIid<IND2QueuePair>{
    0xeef2f332, 0xb75d, 0x4063, {0xbc, 0xe3, 0x3a, 0x0b, 0xad, 0x2d, 0x02, 0xce}};
template <>
inline constexpr GUID kIid<IND2Connector>{
    0x7dd615c4, 0x6b4c, 0x4866, {0x95, 0x0c, 0xf3, 0xb1, 0xd2, 0x5a, 0x53, 0x02}};
template <>
inline constexpr GUID kIid<IND2Listener>{
    0x65d23d83, 0x3a57, 0x4e02, {0x86, 0xa4, 0x35, 0x01, 0x65, 0xc2, 0xd1, 0x30}};
template <>
inline constexpr GUID kIid<IND2Adapter>{
    0xd89c798c, 0x4823, 0x4d69, {0x84, 0x6c, 0xdf, 0xdc, 0xcf, 0xf9, 0xe5, 0xf3}};
template <>
inline constexpr GUID kIid<IND2Provider>{
    0x49eae6c1, 0x76c4, 0x46d0, {0x80, 0x03, 0x5c, 0x2e, 0xaa, 0x2c, 0x9a, 0x8e}};

// The class of the provider, which is also its number in the Winsock catalogue.
inline constexpr GUID kProviderClass{
    0x6b2f4c0e, 0x21d7, 0x4b0a, {0x9e, 0x55, 0x6e, 0x64, 0x62, 0x72, 0x6b, 0x01}};

}  // namespace nd::spi
