// SPDX-License-Identifier: Apache-2.0
// The journal's half of the log: when it is there, and which fields a line has.
//
//   MESSAGE, PRIORITY, SYSLOG_IDENTIFIER=ndbrokerd   always
//   NDB_EVENT=connection.failed                      when the line tells of an event
//   NDB_SESSION, NDB_CONNECTION, NDB_LISTENER, NDB_ENDPOINT, NDB_OBJECT   what it is about; by the id's
//   letter
//
// Any thread. Nothing here waits: a journal that is gone, or that does not take what it is sent, costs lines,
// and the first one that it takes again says how many.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/ops/logging.h"

namespace nd::ops {

// Whether descriptor `fd` is the stream that systemd names in $JOURNAL_STREAM ("device:inode"). Null: no.
bool IsJournalStream(const char* journal_stream, int fd);
// Pure: "NAME=value" for each field.
std::vector<std::string> JournalFields(int priority, std::string_view message, const LogFields& fields);
// Pure: fields of any bytes as one datagram of the journal's native protocol.
std::string EncodeForJournal(const std::vector<std::string>& fields);

// Where SendToJournal() sends from now on.
void OpenJournal(const std::string& socket = "/run/systemd/journal/socket");
void SendToJournal(int priority, std::string_view message, const LogFields& fields);

}  // namespace nd::ops
