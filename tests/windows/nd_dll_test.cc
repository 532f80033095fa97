// SPDX-License-Identifier: Apache-2.0
// ndbrokernd.dll, loaded as a program loads it, with a running broker (NDBROKER_DIR): rules of COM, numbers
// of statuses, and what a misbehaved program gets. tests/windows/nd.sh starts the broker. NDBROKER_TEST_DLL:
// the path of the DLL, NDBROKER_TEST_ADDRESS: an address of an adapter.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/windows/nd_dll_win.h"

namespace nd::spi {
namespace {

using enum StatusCode;

constexpr HRESULT Is(StatusCode code) {
  return static_cast<HRESULT>(code);
}

std::string Setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}
const Dll& TheDll() {
  static const Dll dll = [] {
    WSADATA data;
    ::WSAStartup(0x202, &data);
    const std::string path = Setting("NDBROKER_TEST_DLL", "ndbrokernd.dll");
    return Dll(std::wstring(path.begin(), path.end()).c_str());
  }();
  return dll;
}
sockaddr_in Own(std::uint16_t port) {
  return SocketAddress(Setting("NDBROKER_TEST_ADDRESS", "127.0.0.1").c_str(), port);
}

class NdDllTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(TheDll()) << "the DLL cannot be loaded";
    event = ::CreateEventW(nullptr, FALSE, FALSE, nullptr);
    overlapped.hEvent = event;
    ASSERT_EQ(OpenAdapter(TheDll(), Own(0), &adapter), S_OK);
    ASSERT_EQ(adapter->CreateOverlappedFile(&file), S_OK);
    ASSERT_EQ(adapter->CreateCompletionQueue(kIid<IND2CompletionQueue>, file, 16, 0, 0, queue.out()), S_OK);
    ASSERT_EQ(MakePair(&pair), S_OK);
    ASSERT_EQ(adapter->CreateConnector(kIid<IND2Connector>, file, connector.out()), S_OK);
  }
  void TearDown() override {
    ::CloseHandle(file);
    ::CloseHandle(event);
  }
  HRESULT MakePair(Held<IND2QueuePair>* made) {
    return adapter->CreateQueuePair(kIid<IND2QueuePair>, queue.get(), queue.get(), nullptr, 4, 4, 1, 1, 0,
                                    made->out());
  }
  HRESULT Finished(IND2Overlapped* object, HRESULT hr) { return Await(object, hr, &overlapped); }

  HANDLE event = nullptr, file = nullptr;
  OVERLAPPED overlapped{};
  Held<IND2Adapter> adapter;
  Held<IND2CompletionQueue> queue;
  Held<IND2QueuePair> pair;
  Held<IND2Connector> connector;
};

TEST(NdDll, ClassesAndInterfacesFollowCom) {
  ASSERT_TRUE(TheDll()) << "the DLL cannot be loaded";
  void* out = &out;
  const GUID other{1, 2, 3, {}};
  EXPECT_EQ(TheDll().get_class_object(other, kIid<IND2Provider>, &out), CLASS_E_CLASSNOTAVAILABLE);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(TheDll().get_class_object(kProviderClass, other, &out), E_NOINTERFACE);
  EXPECT_EQ(TheDll().get_class_object(kProviderClass, kIid<IND2Provider>, nullptr), E_POINTER);
  Held<IClassFactory> factory;
  ASSERT_EQ(TheDll().get_class_object(kProviderClass, kIid<IClassFactory>, factory.out()), S_OK);
  Held<IND2Provider> provider;
  EXPECT_EQ(factory->CreateInstance(factory.get(), kIid<IND2Provider>, provider.out()),
            CLASS_E_NOAGGREGATION);
  ASSERT_EQ(factory->CreateInstance(nullptr, kIid<IND2Provider>, provider.out()), S_OK);
  EXPECT_EQ(factory->CreateInstance(nullptr, kIid<IND2Adapter>, &out), E_NOINTERFACE);
  EXPECT_EQ(factory.reset(), 0u);
  EXPECT_EQ(provider.reset(), 0u);
}

// The end of a process ends its other threads first, wherever they are, and then the DLL is told.
TEST(NdDllDeathTest, ProcessEndsWhileOtherThreadsUseTheDll) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open = [] {
    Held<IND2Adapter> adapter;
    return OpenAdapter(TheDll(), Own(0), &adapter);
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_EXIT(
        {
          for (int thread = 0; thread < 3; ++thread) {
            std::thread([&] {
              while (true) open();
            }).detach();
          }
          for (int opened = 0; opened < 3; ++opened) EXPECT_EQ(open(), S_OK);
          std::exit(7);
        },
        ::testing::ExitedWithCode(7), "");
  }
}

TEST(NdDll, AdaptersAreOpenedByManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int opened = 0; opened < 100; ++opened) {
        Held<IND2Adapter> adapter;
        EXPECT_EQ(OpenAdapter(TheDll(), Own(0), &adapter), S_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NdDllTest, AdaptersAreFoundByAddressAndNumber) {
  Held<IND2Provider> provider;
  ASSERT_EQ(TheDll().Provider(&provider), S_OK);
  void* out = &out;
  EXPECT_EQ(provider->OpenAdapter(kIid<IND2Adapter>, 12345, &out), Is(kInvalidParameter));
  EXPECT_EQ(out, nullptr);
  UINT64 id = 0;
  const sockaddr_in nowhere = SocketAddress("203.0.113.9", 0);
  EXPECT_EQ(provider->ResolveAddress(Generic(nowhere), sizeof nowhere, &id), Is(kInvalidAddress));
  ULONG size = 0;
  EXPECT_EQ(provider->QueryAddressList(nullptr, &size), Is(kBufferOverflow));
  EXPECT_GE(size, sizeof(SOCKET_ADDRESS_LIST) + sizeof(sockaddr_in));
}

TEST_F(NdDllTest, ReferencesAreCountedAndAnObjectIsOneIdentity) {
  Held<IUnknown> unknown;
  Held<IND2Overlapped> base;
  ASSERT_EQ(queue->QueryInterface(kIid<IUnknown>, unknown.out()), S_OK);
  ASSERT_EQ(queue->QueryInterface(kIid<IND2Overlapped>, base.out()), S_OK);
  Held<IUnknown> again;
  ASSERT_EQ(base->QueryInterface(kIid<IUnknown>, again.out()), S_OK);
  EXPECT_EQ(unknown.get(), again.get());
  void* out = nullptr;
  EXPECT_EQ(queue->QueryInterface(kIid<IND2Connector>, &out), E_NOINTERFACE);
  EXPECT_EQ(adapter->QueryInterface(kIid<IND2Overlapped>, &out), E_NOINTERFACE);
  EXPECT_EQ(queue->AddRef(), 7u) << "the program's four, two of the queue pair, and this one";
  EXPECT_EQ(queue->Release(), 6u);
}

TEST_F(NdDllTest, TheModuleIsInUseWhileObjectsAreLeft) {
  EXPECT_EQ(TheDll().can_unload_now(), S_FALSE);
  Held<IClassFactory> factory;
  ASSERT_EQ(TheDll().get_class_object(kProviderClass, kIid<IClassFactory>, factory.out()), S_OK);
  factory->LockServer(TRUE);
  connector.reset();
  pair.reset();
  queue.reset();
  adapter.reset();
  EXPECT_EQ(TheDll().can_unload_now(), S_FALSE);
  factory->LockServer(FALSE);
  factory.reset();
  EXPECT_EQ(TheDll().can_unload_now(), S_OK);
}

TEST_F(NdDllTest, QueriesSayTheSizeThatTheyNeed) {
  ULONG size = 0;
  EXPECT_EQ(adapter->Query(nullptr, &size), Is(kBufferOverflow));
  EXPECT_EQ(size, sizeof(AdapterProperties));
  AdapterProperties properties{};
  size = sizeof properties + 8;
  ASSERT_EQ(adapter->Query(&properties, &size), S_OK);
  EXPECT_EQ(size, sizeof(AdapterProperties));
  EXPECT_EQ(properties.version, kVersion2);
  EXPECT_GE(properties.max_completion_queue_depth, 16u);
  size = 0;
  ASSERT_EQ(adapter->QueryAddressList(nullptr, &size), Is(kBufferOverflow));
  std::vector<char> room(size);
  auto* const list = reinterpret_cast<SOCKET_ADDRESS_LIST*>(room.data());
  --size;
  EXPECT_EQ(adapter->QueryAddressList(list, &size), Is(kBufferOverflow));
  ASSERT_EQ(adapter->QueryAddressList(list, &size), S_OK);
  bool found = false;
  for (INT i = 0; i < list->iAddressCount; ++i) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(list->Address[i].lpSockaddr);
    found |= address->sin_family == AF_INET && address->sin_addr.s_addr == Own(0).sin_addr.s_addr;
  }
  EXPECT_TRUE(found);
}

TEST_F(NdDllTest, WrongArgumentsHaveTheirNumber) {
  void* out = &out;
  EXPECT_EQ(adapter->CreateCompletionQueue(kIid<IND2CompletionQueue>, file, 0, 0, 0, &out),
            Is(kInvalidParameter3));
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(adapter->CreateCompletionQueue(kIid<IND2CompletionQueue>, nullptr, 4, 0, 0, &out),
            Is(kInvalidHandle));
  const auto make = [&](IUnknown* receives, IUnknown* initiates, ULONG depths, ULONG sges) {
    return adapter->CreateQueuePair(kIid<IND2QueuePair>, receives, initiates, nullptr, 4, depths, 1, sges, 0,
                                    &out);
  };
  EXPECT_EQ(make(nullptr, queue.get(), 4, 1), Is(kInvalidParameter2));
  EXPECT_EQ(make(queue.get(), connector.get(), 4, 1), Is(kInvalidParameter3)) << "an object of another kind";
  EXPECT_EQ(make(queue.get(), queue.get(), ~0u, 1), Is(kInvalidParameter6));
  EXPECT_EQ(make(queue.get(), queue.get(), 4, ~0u), Is(kInvalidParameter8));
  EXPECT_EQ(queue->Notify(3, &overlapped), Is(kInvalidParameter1));
  EXPECT_EQ(queue->Notify(1, nullptr), Is(kInvalidParameter2));
  EXPECT_EQ(pair->Send(nullptr, nullptr, 1, 0), Is(kInvalidParameter2));
  EXPECT_EQ(pair->Send(nullptr, nullptr, 0, 0), Is(kConnectionInvalid));
  EXPECT_EQ(pair->Bind(nullptr, pair.get(), nullptr, &out, 1, 8), Is(kInvalidParameter2));
  const sockaddr_in peer = Own(1);
  EXPECT_EQ(connector->Connect(nullptr, Generic(peer), sizeof peer, 0, 0, nullptr, 0, &overlapped),
            Is(kInvalidParameter1));
  EXPECT_EQ(connector->Connect(pair.get(), Generic(peer), sizeof peer, 0, 0, nullptr, 0, nullptr),
            Is(kInvalidParameter));
  EXPECT_EQ(Finished(connector.get(), connector->Connect(pair.get(), Generic(peer), sizeof peer, 0, 0,
                                                         nullptr, 0, &overlapped)),
            Is(kAddressNotAssociated));
  EXPECT_EQ(Finished(connector.get(), connector->CompleteConnect(&overlapped)), Is(kConnectionInvalid));
}

TEST_F(NdDllTest, ARegionHasOneBuffer) {
  Held<IND2MemoryRegion> region;
  ASSERT_EQ(adapter->CreateMemoryRegion(kIid<IND2MemoryRegion>, file, region.out()), S_OK);
  char bytes[64];
  EXPECT_EQ(region->Register(nullptr, 64, 1, &overlapped), Is(kInvalidParameter));
  EXPECT_EQ(region->Register(bytes, 0, 1, &overlapped), Is(kInvalidBufferSize));
  EXPECT_EQ(region->Register(bytes, 64, 0x10, &overlapped), Is(kInvalidParameter3));
  EXPECT_EQ(region->Deregister(&overlapped), Is(kInvalidHandle));
  ASSERT_EQ(Finished(region.get(), region->Register(bytes, 64, 0x8000000F, &overlapped)), S_OK);
  EXPECT_NE(region->GetLocalToken(), 0u);
  EXPECT_EQ(region->Register(bytes, 64, 1, &overlapped), Is(kInvalidDeviceState));
  ASSERT_EQ(Finished(region.get(), region->Deregister(&overlapped)), S_OK);
  EXPECT_EQ(region->Deregister(&overlapped), Is(kInvalidHandle)) << "twice";
  ASSERT_EQ(Finished(region.get(), region->Register(bytes, 64, 1, &overlapped)), S_OK);
}

TEST_F(NdDllTest, ARefusalIsAFailedPacketOfThePort) {
  const HANDLE port = ::CreateIoCompletionPort(file, nullptr, 5, 0);
  ASSERT_NE(port, nullptr);
  const sockaddr_in own = Own(0), nobody = Own(9);
  ASSERT_EQ(connector->Bind(Generic(own), sizeof own), S_OK);
  overlapped.hEvent = nullptr;
  ASSERT_EQ(connector->Connect(pair.get(), Generic(nobody), sizeof nobody, 0, 0, nullptr, 0, &overlapped),
            Is(kPending));
  DWORD bytes = 0;
  ULONG_PTR key = 0;
  OVERLAPPED* done = nullptr;
  EXPECT_FALSE(::GetQueuedCompletionStatus(port, &bytes, &key, &done, 30000));
  EXPECT_EQ(done, &overlapped);
  EXPECT_EQ(key, 5u);
  EXPECT_EQ(connector->GetOverlappedResult(&overlapped, FALSE), Is(kConnectionRefused));
  ::CloseHandle(port);
}

TEST_F(NdDllTest, CancelAndReleaseCompleteWhatIsPending) {
  const sockaddr_in own = Own(0);
  for (bool release : {false, true}) {
    Held<IND2Listener> listener;
    ASSERT_EQ(adapter->CreateListener(kIid<IND2Listener>, file, listener.out()), S_OK);
    ASSERT_EQ(listener->Bind(Generic(own), sizeof own), S_OK);
    ASSERT_EQ(listener->Listen(0), S_OK);
    ASSERT_EQ(listener->GetConnectionRequest(connector.get(), &overlapped), Is(kPending));
    EXPECT_EQ(listener->GetOverlappedResult(&overlapped, FALSE), Is(kPending));
    OVERLAPPED notify{};
    ASSERT_EQ(queue->Notify(1, &notify), Is(kPending));
    if (release) {
      listener.reset();
    } else {
      EXPECT_EQ(listener->CancelOverlappedRequests(), S_OK);
    }
    EXPECT_EQ(connector->GetOverlappedResult(&overlapped, FALSE), Is(kCanceled));
    EXPECT_EQ(queue->GetOverlappedResult(&notify, FALSE), Is(kPending)) << "of another object";
    EXPECT_EQ(queue->CancelOverlappedRequests(), S_OK);
    EXPECT_EQ(queue->GetOverlappedResult(&notify, FALSE), Is(kCanceled));
    ASSERT_EQ(adapter->CreateConnector(kIid<IND2Connector>, file, connector.out()), S_OK);
  }
}

TEST_F(NdDllTest, AFlushWakesTheNotifyRequests) {
  OVERLAPPED first{}, second{};
  ASSERT_EQ(queue->Notify(1, &first), Is(kPending));
  ASSERT_EQ(queue->Notify(0, &second), Is(kPending));
  ASSERT_EQ(pair->Receive(&first, nullptr, 0), S_OK);
  ASSERT_EQ(pair->Flush(), S_OK);
  EXPECT_EQ(queue->GetOverlappedResult(&first, TRUE), S_OK);
  EXPECT_EQ(queue->GetOverlappedResult(&second, TRUE), S_OK) << "one event completes all";
  RequestResult results[4];
  ASSERT_EQ(queue->GetResults(results, 4), 1u);
  EXPECT_EQ(results[0].status, Is(kCanceled));
  EXPECT_EQ(results[0].request_context, &first);
  EXPECT_EQ(results[0].request_type, 0);
}

TEST_F(NdDllTest, ASharedReceiveQueueTakesAnotherDepth) {
  Held<IND2SharedReceiveQueue> shared;
  void* out = nullptr;
  EXPECT_EQ(adapter->CreateSharedReceiveQueue(kIid<IND2SharedReceiveQueue>, file, 0, 1, 0, 0, 0, &out),
            Is(kInvalidParameter3));
  EXPECT_EQ(adapter->CreateSharedReceiveQueue(kIid<IND2SharedReceiveQueue>, file, 2, ~0u, 0, 0, 0, &out),
            Is(kInvalidParameter4));
  ASSERT_EQ(
      adapter->CreateSharedReceiveQueue(kIid<IND2SharedReceiveQueue>, file, 2, 1, 1, 0, 0, shared.out()),
      S_OK);
  ASSERT_EQ(shared->Receive(nullptr, nullptr, 0), S_OK);
  ASSERT_EQ(shared->Receive(nullptr, nullptr, 0), S_OK);
  EXPECT_EQ(shared->Receive(nullptr, nullptr, 0), Is(kNoMoreEntries));
  EXPECT_EQ(shared->Modify(1, 0), Is(kBufferOverflow));
  EXPECT_EQ(shared->Modify(~0u, 0), Is(kInvalidParameter));
  ASSERT_EQ(shared->Modify(3, 2), S_OK);
  EXPECT_EQ(shared->Receive(nullptr, nullptr, 0), S_OK);
  Held<IND2QueuePair> with;
  EXPECT_EQ(adapter->CreateQueuePairWithSrq(kIid<IND2QueuePair>, queue.get(), queue.get(), nullptr, nullptr,
                                            4, 1, 0, &out),
            Is(kInvalidParameter4));
  ASSERT_EQ(adapter->CreateQueuePairWithSrq(kIid<IND2QueuePair>, queue.get(), queue.get(), shared.get(),
                                            nullptr, 4, 1, 0, with.out()),
            S_OK);
  OVERLAPPED notify{};
  ASSERT_EQ(shared->Notify(&notify), Is(kPending));
  EXPECT_EQ(shared->CancelOverlappedRequests(), S_OK);
  EXPECT_EQ(shared->GetOverlappedResult(&notify, FALSE), Is(kCanceled));
}

TEST_F(NdDllTest, UnloadingWithRequestsOutstandingIsHarmless) {
  OVERLAPPED notify{};
  ASSERT_EQ(queue->Notify(1, &notify), Is(kPending));
  EXPECT_TRUE(::FreeLibrary(TheDll().module));
  EXPECT_EQ(queue->GetOverlappedResult(&notify, FALSE), Is(kPending));
  EXPECT_EQ(queue->CancelOverlappedRequests(), S_OK);
  EXPECT_EQ(queue->GetOverlappedResult(&notify, TRUE), Is(kCanceled));
  EXPECT_EQ(TheDll().can_unload_now(), S_FALSE);
  EXPECT_TRUE(::FreeLibrary(TheDll().module)) << "the module is still there";
}

}  // namespace
}  // namespace nd::spi
