// SPDX-License-Identifier: Apache-2.0
// Pieces of rows that several nouns share.
#pragma once

#include <string>

#include "cli/value.h"
#include "nd/status.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {

std::string AddressText(const ndbroker::v1::Address& address);  // "10.0.0.1:7000"
std::string IpText(const ndbroker::v1::Address& address);       // "10.0.0.1"
Value OwnerValue(const ndbroker::v1::Owner& owner);
Value AdapterInfoValue(const ndbroker::v1::AdapterInfo& info);
Status StatusOf(const ndbroker::v1::Status& status);
// Sets `age_seconds` and `since`.
void SetAge(double seconds, Value* row);
// The part of an ISO time and fractions that a person reads: three decimals.
double Rounded(double seconds);

}  // namespace nd::cli
