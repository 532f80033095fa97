// SPDX-License-Identifier: Apache-2.0
// Everything: #include <nd/nd.h>
#pragma once

#include "nd/adapter.h"
#include "nd/connector.h"
#include "nd/memory.h"
#include "nd/queue_pair.h"
#include "nd/request.h"
#include "nd/status.h"
#include "nd/types.h"
