// SPDX-License-Identifier: Apache-2.0
// Completions that many operations share.
#pragma once

#include <string>

#include "daemon/core/connector_state.h"
#include "nd/status.h"

namespace nd::core {

// `kind` names the expected object, such as "listener".
inline Status BadHandle(const char* kind = "object") {
  return {StatusCode::kInvalidHandle, std::string("The handle names no open ") + kind + " of this session."};
}

inline Status AdapterGone(Detail detail = Detail::kNone) {
  return {StatusCode::kDeviceRemoved, "The adapter was removed or disabled.", detail};
}

inline Status WrongState(StatusCode code, ConnectorState state) {
  return {code, "The connector is in state " + std::string(Name(state)) + "."};
}

}  // namespace nd::core
