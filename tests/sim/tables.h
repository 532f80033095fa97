// SPDX-License-Identifier: Apache-2.0
// The rows of a broker after one step. Each table is copied once, at its first use, for all checks of that
// step: the copies take longer than the step itself.
#pragma once

#include <optional>
#include <vector>

#include "daemon/core/broker.h"

namespace nd::sim {

// Valid until the next step of the broker, which outlives it.
class Tables {
 public:
  explicit Tables(const core::Broker& broker) : broker_(broker) {}
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  const core::Broker& broker() const { return broker_; }
  const auto& Adapters() const { return Once(adapters_, &core::Broker::Adapters); }
  const auto& Listeners() const { return Once(listeners_, &core::Broker::Listeners); }
  const auto& Connections() const { return Once(connections_, &core::Broker::Connections); }
  const auto& QueuePairs() const { return Once(queue_pairs_, &core::Broker::QueuePairs); }
  const auto& Endpoints() const { return Once(endpoints_, &core::Broker::Endpoints); }
  const auto& Ports() const { return Once(ports_, &core::Broker::Ports); }
  const auto& Sessions() const { return Once(sessions_, &core::Broker::Sessions); }

 private:
  template <typename Row>
  using Table = std::optional<std::vector<Row>>;
  template <typename Row>
  const std::vector<Row>& Once(Table<Row>& table, std::vector<Row> (core::Broker::*rows)() const) const {
    if (!table) table = (broker_.*rows)();
    return *table;
  }

  const core::Broker& broker_;
  mutable Table<core::AdapterRow> adapters_;
  mutable Table<core::ListenerRow> listeners_;
  mutable Table<core::ConnectionRow> connections_;
  mutable Table<core::QueuePairRow> queue_pairs_;
  mutable Table<core::EndpointRow> endpoints_;
  mutable Table<core::PortRow> ports_;
  mutable Table<core::SessionRow> sessions_;
};

}  // namespace nd::sim
