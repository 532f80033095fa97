// SPDX-License-Identifier: Apache-2.0
// Who wants to know of every connection: history, the lease journal, metrics.
//
// Called once when a connection is established and once when it, or the attempt, is over (core/record.h),
// after the actions that led there. Loop thread: a sink that has something slow to do passes it on. It must
// not call back into the shell.
#pragma once

#include "daemon/core/record.h"
#include "daemon/service/counters_pages.h"
#include "provider/hand_off.h"

namespace nd::service {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // `transport`: kNone before it is known. `traffic`: of its queue pair at this moment; all zeros when the
  // record has no counter slot. The values are the client's word.
  virtual void OnRecord(const core::ConnectionRecord& record, provider::Transport transport,
                        const Traffic& traffic) = 0;
  // An operation was answered; `kind` is its place in core::Op.
  virtual void OnOperation(std::size_t /*kind*/, const Status& /*status*/, Duration /*took*/) {}
  // A client said Hello, and is gone: SUCCESS or CONNECTION_DISCONNECTED when it left by itself.
  virtual void OnSession(core::SessionId /*session*/, const core::Identity& /*who*/) {}
  virtual void OnSessionEnd(core::SessionId /*session*/, const Status& /*why*/) {}
};

}  // namespace nd::service
