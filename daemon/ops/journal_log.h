// SPDX-License-Identifier: Apache-2.0
// The systemd journal as the target of the log, and the fields of a line.
//
//   MESSAGE, PRIORITY, SYSLOG_IDENTIFIER=ndbrokerd   always
//   NDB_EVENT=connection.failed                      for a line about an event
//   NDB_SESSION, NDB_CONNECTION, NDB_LISTENER, NDB_ENDPOINT, NDB_OBJECT   the object, by the letter of its id
//
// Any thread. No function blocks: a journal that is gone or full loses lines, and the first line that it
// accepts again has their number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/ops/logging.h"

namespace nd::ops {

// Returns whether descriptor `fd` is the stream that systemd names in $JOURNAL_STREAM ("device:inode"). False
// for null.
bool IsJournalStream(const char* journal_stream, int fd);
// Returns "NAME=value" for each field. Pure.
std::vector<std::string> JournalFields(int priority, std::string_view message, const LogFields& fields);
// Encodes fields of any bytes as one datagram of the native protocol of the journal. Pure.
std::string EncodeForJournal(const std::vector<std::string>& fields);

// Sets the target of SendToJournal().
void OpenJournal(const std::string& socket = "/run/systemd/journal/socket");
void SendToJournal(int priority, std::string_view message, const LogFields& fields);

}  // namespace nd::ops
