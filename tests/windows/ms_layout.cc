// SPDX-License-Identifier: Apache-2.0
// Compares nd-provider/ndspi_win.h with Microsoft's ndspi.h: structures, numbers, and the place of every
// function in its interface. tests/windows/ms.sh compiles and runs it.
#include <initguid.h>

#include "ndspi.h"
// The SAL names of the shim, which the C++ library has as identifiers.
#undef __in
#undef __out

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "nd-provider/ndspi_win.h"
#include "nd/status.h"

namespace {

int wrong = 0;

void Expect(bool good, const char* what) {
  if (good) return;
  std::printf("differs: %s\n", what);
  ++wrong;
}

// A pointer to a virtual function of the Itanium ABI begins with its place.
template <typename Function>
std::ptrdiff_t PlaceOf(Function function) {
  std::ptrdiff_t place;
  static_assert(sizeof function >= sizeof place);
  std::memcpy(&place, &function, sizeof place);
  return place;
}

static_assert(sizeof(nd::spi::AdapterProperties) == sizeof(ND2_ADAPTER_INFO));
#define SAME_PLACE(ours, theirs) \
  static_assert(offsetof(nd::spi::AdapterProperties, ours) == offsetof(ND2_ADAPTER_INFO, theirs))
SAME_PLACE(adapter_id, AdapterId);
SAME_PLACE(max_registration_size, MaxRegistrationSize);
SAME_PLACE(max_initiator_sge, MaxInitiatorSge);
SAME_PLACE(max_transfer_length, MaxTransferLength);
SAME_PLACE(max_inbound_read_limit, MaxInboundReadLimit);
SAME_PLACE(max_completion_queue_depth, MaxCompletionQueueDepth);
SAME_PLACE(max_callee_data, MaxCalleeData);
SAME_PLACE(flags, AdapterFlags);
static_assert(sizeof(nd::spi::RequestResult) == sizeof(ND2_RESULT));
static_assert(offsetof(nd::spi::RequestResult, request_context) == offsetof(ND2_RESULT, RequestContext));
static_assert(offsetof(nd::spi::RequestResult, request_type) == offsetof(ND2_RESULT, RequestType));
static_assert(sizeof(nd::Sge) == sizeof(ND2_SGE));
static_assert(offsetof(nd::Sge, length) == offsetof(ND2_SGE, BufferLength));
static_assert(offsetof(nd::Sge, local_token) == offsetof(ND2_SGE, MemoryRegionToken));
static_assert(static_cast<int>(nd::RequestType::kWrite) == Nd2RequestTypeWrite);
static_assert(static_cast<int>(nd::RequestType::kBind) == Nd2RequestTypeBind);
static_assert(static_cast<int>(nd::NotifyType::kSolicited) == ND_CQ_NOTIFY_SOLICITED);
static_assert(nd::kOpInline == ND_OP_FLAG_INLINE && nd::kOpAllowWrite == ND_OP_FLAG_ALLOW_WRITE);
static_assert(nd::kAllowRemoteWrite == ND_MR_FLAG_ALLOW_REMOTE_WRITE &&
              nd::kRdmaReadSink == ND_MR_FLAG_RDMA_READ_SINK);
static_assert(nd::spi::kVersion2 == ND_VERSION_2);

}  // namespace

#define SAME_IID(name) Expect(nd::spi::kIid<nd::spi::name> == IID_##name, "the number of " #name)
#define SAME_FUNCTION(name, function) \
  Expect(PlaceOf(&nd::spi::name::function) == PlaceOf(&::name::function), #name "::" #function)
#define SAME_STATUS(ours, theirs) Expect(static_cast<HRESULT>(nd::StatusCode::ours) == theirs, #theirs)

int main() {
  SAME_IID(IND2Overlapped);
  SAME_IID(IND2CompletionQueue);
  SAME_IID(IND2SharedReceiveQueue);
  SAME_IID(IND2MemoryWindow);
  SAME_IID(IND2MemoryRegion);
  SAME_IID(IND2QueuePair);
  SAME_IID(IND2Connector);
  SAME_IID(IND2Listener);
  SAME_IID(IND2Adapter);
  SAME_IID(IND2Provider);

  SAME_FUNCTION(IND2Overlapped, CancelOverlappedRequests);
  SAME_FUNCTION(IND2Overlapped, GetOverlappedResult);
  SAME_FUNCTION(IND2CompletionQueue, GetNotifyAffinity);
  SAME_FUNCTION(IND2CompletionQueue, Resize);
  SAME_FUNCTION(IND2CompletionQueue, Notify);
  SAME_FUNCTION(IND2CompletionQueue, GetResults);
  SAME_FUNCTION(IND2SharedReceiveQueue, GetNotifyAffinity);
  SAME_FUNCTION(IND2SharedReceiveQueue, Modify);
  SAME_FUNCTION(IND2SharedReceiveQueue, Notify);
  SAME_FUNCTION(IND2SharedReceiveQueue, Receive);
  SAME_FUNCTION(IND2MemoryWindow, GetRemoteToken);
  SAME_FUNCTION(IND2MemoryRegion, Register);
  SAME_FUNCTION(IND2MemoryRegion, Deregister);
  SAME_FUNCTION(IND2MemoryRegion, GetLocalToken);
  SAME_FUNCTION(IND2MemoryRegion, GetRemoteToken);
  SAME_FUNCTION(IND2QueuePair, Flush);
  SAME_FUNCTION(IND2QueuePair, Send);
  SAME_FUNCTION(IND2QueuePair, Receive);
  SAME_FUNCTION(IND2QueuePair, Bind);
  SAME_FUNCTION(IND2QueuePair, Invalidate);
  SAME_FUNCTION(IND2QueuePair, Read);
  SAME_FUNCTION(IND2QueuePair, Write);
  SAME_FUNCTION(IND2Connector, Bind);
  SAME_FUNCTION(IND2Connector, Connect);
  SAME_FUNCTION(IND2Connector, CompleteConnect);
  SAME_FUNCTION(IND2Connector, Accept);
  SAME_FUNCTION(IND2Connector, Reject);
  SAME_FUNCTION(IND2Connector, GetReadLimits);
  SAME_FUNCTION(IND2Connector, GetPrivateData);
  SAME_FUNCTION(IND2Connector, GetLocalAddress);
  SAME_FUNCTION(IND2Connector, GetPeerAddress);
  SAME_FUNCTION(IND2Connector, NotifyDisconnect);
  SAME_FUNCTION(IND2Connector, Disconnect);
  SAME_FUNCTION(IND2Listener, Bind);
  SAME_FUNCTION(IND2Listener, Listen);
  SAME_FUNCTION(IND2Listener, GetLocalAddress);
  SAME_FUNCTION(IND2Listener, GetConnectionRequest);
  SAME_FUNCTION(IND2Adapter, CreateOverlappedFile);
  SAME_FUNCTION(IND2Adapter, Query);
  SAME_FUNCTION(IND2Adapter, QueryAddressList);
  SAME_FUNCTION(IND2Adapter, CreateCompletionQueue);
  SAME_FUNCTION(IND2Adapter, CreateMemoryRegion);
  SAME_FUNCTION(IND2Adapter, CreateMemoryWindow);
  SAME_FUNCTION(IND2Adapter, CreateSharedReceiveQueue);
  SAME_FUNCTION(IND2Adapter, CreateQueuePair);
  SAME_FUNCTION(IND2Adapter, CreateQueuePairWithSrq);
  SAME_FUNCTION(IND2Adapter, CreateConnector);
  SAME_FUNCTION(IND2Adapter, CreateListener);
  SAME_FUNCTION(IND2Provider, QueryAddressList);
  SAME_FUNCTION(IND2Provider, ResolveAddress);
  SAME_FUNCTION(IND2Provider, OpenAdapter);

  SAME_STATUS(kSuccess, ND_SUCCESS);
  SAME_STATUS(kPending, ND_PENDING);
  SAME_STATUS(kBufferOverflow, ND_BUFFER_OVERFLOW);
  SAME_STATUS(kDeviceBusy, ND_DEVICE_BUSY);
  SAME_STATUS(kNoMoreEntries, ND_NO_MORE_ENTRIES);
  SAME_STATUS(kUnsuccessful, ND_UNSUCCESSFUL);
  SAME_STATUS(kAccessViolation, ND_ACCESS_VIOLATION);
  SAME_STATUS(kInvalidHandle, ND_INVALID_HANDLE);
  SAME_STATUS(kInvalidDeviceRequest, ND_INVALID_DEVICE_REQUEST);
  SAME_STATUS(kInvalidParameter, ND_INVALID_PARAMETER);
  SAME_STATUS(kNoMemory, ND_NO_MEMORY);
  SAME_STATUS(kInvalidParameterMix, ND_INVALID_PARAMETER_MIX);
  SAME_STATUS(kDataOverrun, ND_DATA_OVERRUN);
  SAME_STATUS(kSharingViolation, ND_SHARING_VIOLATION);
  SAME_STATUS(kInsufficientResources, ND_INSUFFICIENT_RESOURCES);
  SAME_STATUS(kDeviceNotReady, ND_DEVICE_NOT_READY);
  SAME_STATUS(kIoTimeout, ND_IO_TIMEOUT);
  SAME_STATUS(kNotSupported, ND_NOT_SUPPORTED);
  SAME_STATUS(kInternalError, ND_INTERNAL_ERROR);
  SAME_STATUS(kInvalidParameter1, ND_INVALID_PARAMETER_1);
  SAME_STATUS(kInvalidParameter10, ND_INVALID_PARAMETER_10);
  SAME_STATUS(kCanceled, ND_CANCELED);
  SAME_STATUS(kRemoteError, ND_REMOTE_ERROR);
  SAME_STATUS(kInvalidAddress, ND_INVALID_ADDRESS);
  SAME_STATUS(kInvalidDeviceState, ND_INVALID_DEVICE_STATE);
  SAME_STATUS(kInvalidBufferSize, ND_INVALID_BUFFER_SIZE);
  SAME_STATUS(kTooManyAddresses, ND_TOO_MANY_ADDRESSES);
  SAME_STATUS(kAddressAlreadyExists, ND_ADDRESS_ALREADY_EXISTS);
  SAME_STATUS(kConnectionRefused, ND_CONNECTION_REFUSED);
  SAME_STATUS(kConnectionInvalid, ND_CONNECTION_INVALID);
  SAME_STATUS(kConnectionActive, ND_CONNECTION_ACTIVE);
  SAME_STATUS(kNetworkUnreachable, ND_NETWORK_UNREACHABLE);
  SAME_STATUS(kHostUnreachable, ND_HOST_UNREACHABLE);
  SAME_STATUS(kConnectionAborted, ND_CONNECTION_ABORTED);
  SAME_STATUS(kDeviceRemoved, ND_DEVICE_REMOVED);

  if (wrong == 0) std::printf("declarations agree with Microsoft's\n");
  return wrong == 0 ? 0 : 1;
}
