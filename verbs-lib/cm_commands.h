// SPDX-License-Identifier: Apache-2.0
// The commands that librdmacm writes to /dev/infiniband/rdma_cm (rdma/rdma_user_cm.h, ABI version 4).
#pragma once

#include <cstddef>
#include <memory>

#include "verbs-lib/cm_channel.h"

namespace nd::verbs_lib {

// Runs one command as the kernel's write() does. 0, or an errno; a command that this library does not know is
// ENOSYS.
int RunCommand(const std::shared_ptr<CmChannel>& channel, const void* data, std::size_t size);

}  // namespace nd::verbs_lib
