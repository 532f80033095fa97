// SPDX-License-Identifier: Apache-2.0
// Parts of rows that several nouns share.
#pragma once

#include <string>

#include "cli/error.h"
#include "cli/value.h"
#include "nd/status.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {

std::string AddressText(const ndbroker::v1::Address& address);  // "10.0.0.1:7000"
std::string IpText(const ndbroker::v1::Address& address);       // "10.0.0.1"
Value TrafficValue(const ndbroker::v1::Traffic& traffic);
Value PhasesValue(const google::protobuf::RepeatedPtrField<ndbroker::v1::Phase>& phases);
// "fio (pid 17)", for sentences.
std::string OwnerText(const Value& row);
Value OwnerValue(const ndbroker::v1::Owner& owner);
Value AdapterInfoValue(const ndbroker::v1::AdapterInfo& info);
Status StatusOf(const ndbroker::v1::Status& status);
// Sets `age_seconds` and `since`.
void SetAge(double seconds, Value* row);
// Rounds to three decimals.
double Rounded(double seconds);
// The address with a port that a command line names; a usage error otherwise. Port 0 only with `any_port`.
Failure ParseAddress(const std::string& text, ndbroker::v1::Address* address, bool any_port = false);

}  // namespace nd::cli
