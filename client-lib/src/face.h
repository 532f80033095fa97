// SPDX-License-Identifier: Apache-2.0
// The C++ binding of the core: the public classes hold handles of the core's objects (core/handle.h).
//
// The public headers call the object behind a class Impl, or State. These names are never defined: a pointer
// to one of them is a pointer to the object of the core that CoreOf names, so that a call costs no second
// indirection. Core() and Face() convert, and nothing else does.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "client-lib/core/adapter.h"
#include "client-lib/core/call_state.h"
#include "client-lib/core/connector.h"
#include "client-lib/core/endpoint.h"
#include "client-lib/core/handle.h"
#include "client-lib/core/queue_pair.h"
#include "client-lib/core/queues.h"
#include "nd/adapter.h"

namespace nd::client {

template <typename Named>
struct CoreOf;
template <>
struct CoreOf<Adapter::Impl> : std::type_identity<LocalAdapter> {};
template <>
struct CoreOf<Connector::Impl> : std::type_identity<LocalConnector> {};
template <>
struct CoreOf<Listener::Impl> : std::type_identity<LocalListener> {};
template <>
struct CoreOf<SharedEndpoint::Impl> : std::type_identity<LocalSharedEndpoint> {};
template <>
struct CoreOf<QueuePair::Impl> : std::type_identity<LocalQueuePair> {};
template <>
struct CoreOf<CompletionQueue::Impl> : std::type_identity<LocalCompletionQueue> {};
template <>
struct CoreOf<SharedReceiveQueue::Impl> : std::type_identity<LocalSharedReceiveQueue> {};
template <>
struct CoreOf<Request::State> : std::type_identity<CallState> {};

template <typename Named>
auto* Core(const std::shared_ptr<Named>& named) {
  return reinterpret_cast<typename CoreOf<Named>::type*>(named.get());
}

template <typename Named>
std::shared_ptr<Named> Face(std::shared_ptr<typename CoreOf<Named>::type> object) {
  Named* const named = reinterpret_cast<Named*>(object.get());
  return std::shared_ptr<Named>(std::move(object), named);
}

// Returns the public object for a handle of the core, or the status of the failure.
template <typename Public, typename T>
Result<Public> Made(Result<AppHandle<T>> handle) {
  if (!handle.ok()) return handle.status();
  return Public(Face<typename Public::Impl>(std::move(handle).value()));
}

// Copies every option except the broker's directory and the progress thread, which belong to the environment.
inline SessionOptions SessionOptionsOf(const OpenOptions& options) {
  SessionOptions session;
  session.application = options.application;
  session.adapter = options.adapter;
  session.local = options.local;
  session.reconnect = options.reconnect;
  return session;
}

// A call without a request blocks.
inline Caller CallerOf(const Request* request) {
  if (request == nullptr) return {};
  const auto& state = request->state();
  return Caller(std::shared_ptr<CallState>(state, Core(state)));
}

}  // namespace nd::client
