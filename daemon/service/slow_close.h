// SPDX-License-Identifier: Apache-2.0
// The close of a socket can wait for its peer. This call keeps that wait short.
#pragma once

namespace nd::service {

// Makes the last close of a socket reset the connection instead of waiting for its peer. The client library
// never sets SO_LINGER, so only other clients are affected. The client can set it again afterwards.
void ResetInsteadOfLingering(int fd);

}  // namespace nd::service
