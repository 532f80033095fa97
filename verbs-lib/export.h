// SPDX-License-Identifier: Apache-2.0
// The mark of every function that programs see. Everything else in this library is hidden.
#pragma once

#define NDBROKER_PUBLIC extern "C" __attribute__((visibility("default")))
