// SPDX-License-Identifier: Apache-2.0
// The rule of the Windows firewall that lets brokers of other hosts connect to this program over TCP. It
// holds in networks that are private or of a domain, not in public ones. Any thread; waits for the firewall's
// service.
#pragma once

#include "nd/status.h"

namespace nd::os {

// Replaces an earlier rule of this name. UNSUCCESSFUL with the number that the system gave.
Status OpenFirewall();
// SUCCESS also without a rule.
Status CloseFirewall();

}  // namespace nd::os
