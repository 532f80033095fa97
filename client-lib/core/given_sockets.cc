// SPDX-License-Identifier: Apache-2.0
// The sockets that this process gives to a broker that serves its network namespace. A socket belongs to the
// namespace of the thread that makes it.
#include <vector>

#include "base/os/given_socket.h"
#include "client-lib/core/broker_session.h"

namespace nd::client {

void BrokerSession::GiveNetwork(BrokerLane& lane) {
  using os::GivenKind;
  std::vector<UniqueFd> sockets;
  std::vector<int> numbers;
  for (const GivenKind kind : {GivenKind::kRoutes, GivenKind::kTcp4, GivenKind::kTcp6}) {
    UniqueFd socket = os::MakeGiven(kind);
    if (!socket) continue;  // A host without IPv6, for example.
    numbers.push_back(socket.get());
    sockets.push_back(std::move(socket));
  }
  // A lane that has ended is noticed by its reader.
  if (!numbers.empty()) static_cast<void>(lane.GiveSockets(0, numbers));
}

void BrokerSession::GiveSocketFor(const session::ConnectOp& connect, session::OpId op_id, BrokerLane& lane) {
  const UniqueFd socket = os::MakeGiven(os::TcpKindOf(connect.remote.family()));
  if (!socket) return;
  const int number = socket.get();
  static_cast<void>(lane.GiveSockets(op_id, std::span(&number, 1)));
}

}  // namespace nd::client
