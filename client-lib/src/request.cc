// SPDX-License-Identifier: Apache-2.0
// A Request owns the state of one call at a time.
#include "nd/request.h"

#include <utility>

#include "client-lib/src/face.h"

namespace nd {

using client::CallState;
using client::Core;

Request::Request() : Request(Callback()) {}
Request::Request(Callback callback)
    : state_(Face<State>(std::make_shared<CallState>(this, std::move(callback)))) {}

Request::Request(Request&& other) noexcept : context(other.context), state_(std::move(other.state_)) {
  if (state_) Core(state_)->SetOwner(this);
}

Request& Request::operator=(Request&& other) noexcept {
  if (this == &other) return *this;
  if (state_) Core(state_)->Abandon();
  context = other.context;
  state_ = std::move(other.state_);
  if (state_) Core(state_)->SetOwner(this);
  return *this;
}

Request::~Request() {
  if (state_) Core(state_)->Abandon();
}

Status Request::GetResult(bool wait) {
  if (!state_) return {StatusCode::kConnectionInvalid, "this Request was moved away"};
  return Core(state_)->GetResult(wait);
}

}  // namespace nd
