// SPDX-License-Identifier: Apache-2.0
// The interface of receivers of connection records: history, lease journal, metrics.
//
// Called once when a connection is established and once when it, or the attempt, has ended (core/record.h),
// after the actions that led there. Loop thread: a sink with slow work passes it to another thread. It must
// not call back into the shell.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "daemon/core/record.h"
#include "daemon/service/counters_pages.h"

namespace nd::service {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // `transport`: its name, empty while it is unknown. `traffic`: the counters of the queue pair now; zeros
  // when the record has no counter slot. The client writes the values, so they are not trusted.
  virtual void OnRecord(const core::ConnectionRecord& record, std::string_view transport,
                        const Traffic& traffic) = 0;
  // An operation was completed; `kind` is its index in session::Operation.
  virtual void OnOperation(std::size_t /*kind*/, const Status& /*status*/, Duration /*took*/) {}
  // A client sent a valid Hello, or has left: SUCCESS or CONNECTION_DISCONNECTED when it left by itself.
  virtual void OnSession(core::SessionId /*session*/, const core::Identity& /*who*/) {}
  virtual void OnSessionEnd(core::SessionId /*session*/, const Status& /*why*/) {}
};

// Returns the phases that have ended, in order, with their durations.
struct PhaseSpan {
  core::Phase phase;
  double seconds;
};
class PhaseSpans {
 public:
  void Add(PhaseSpan span) { spans_[size_++] = span; }
  std::size_t size() const { return size_; }
  const PhaseSpan* begin() const { return spans_.data(); }
  const PhaseSpan* end() const { return spans_.data() + size_; }

 private:
  std::array<PhaseSpan, core::kPhases> spans_;
  std::size_t size_ = 0;
};
PhaseSpans SpansOf(const core::PhaseTimes& times);

}  // namespace nd::service
