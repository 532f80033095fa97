// SPDX-License-Identifier: Apache-2.0
// A child that the program makes by fork() after its first use of RDMA: the objects of its parent stay with
// the parent. There a function that makes or changes something fails, and one that destroys something
// succeeds and does nothing, so that the child can end as the parent would. Locks of this library may be held
// by threads that the child does not have, so none is taken there.
//
// Thread rule: any thread.
#pragma once

namespace nd::verbs_lib {

// RDMA is used from now on.
void UseInThisProcess();
// Any thread, cheap.
bool InForkedChild();
// The same, and the first call of a child that asks prints a line. Sets errno to ENODEV.
bool RefuseInForkedChild();

}  // namespace nd::verbs_lib
