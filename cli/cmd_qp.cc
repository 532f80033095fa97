// SPDX-License-Identifier: Apache-2.0
// ndctl qp: the queue pairs of applications, connected or not, with their traffic.
#include "cli/commands.h"
#include "cli/fetch_rows.h"
#include "cli/noun.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

Value RowOfQueuePair(const v1::QueuePairRow& pair) {
  Value row = Value::MakeObject();
  row.Set("id", pair.id())
      .Set("state", pair.state())
      .Set("connection", pair.connection())
      .Set("adapter", pair.adapter())
      .Set("owner", OwnerValue(pair.owner()))
      .Set("receive_queue_depth", pair.receive_queue_depth())
      .Set("initiator_queue_depth", pair.initiator_queue_depth())
      .Set("device_number", pair.device_number())
      .Set("traffic", TrafficValue(pair.traffic()));
  return row;
}

Failure FetchQueuePairs(Context& context, const std::string& id, Value::Array* rows) {
  return FetchRows<v1::QueuePairList>(context, &AdminClient::ListQueuePairs, id, RowOfQueuePair, rows);
}

}  // namespace

void AddQp(Command root, Context& context) {
  Noun noun;
  noun.name = "qp";
  noun.aliases = "qps queue-pair queue-pairs";
  noun.about = "Queue pairs: list, show";
  noun.id_name = "id that the list shows";
  noun.message = "QueuePairRow";
  noun.shape = {"QueuePair",
                "id",
                {{"ID", "id"},
                 {"STATE", "state", Show::kState},
                 {"CONNECTION", "connection"},
                 {"APP", "owner.application"},
                 {"PID", "owner.pid", Show::kNumber, true},
                 {"RQ", "receive_queue_depth", Show::kNumber},
                 {"IQ", "initiator_queue_depth", Show::kNumber},
                 {"TX", "traffic.tx_bytes", Show::kBytes, false, When::kOnce},
                 {"RX", "traffic.rx_bytes", Show::kBytes, false, When::kOnce},
                 {"TX/s", "tx_bytes_per_second", Show::kBytes, false, When::kLive},
                 {"RX/s", "rx_bytes_per_second", Show::kBytes, false, When::kLive},
                 {"STALLS", "traffic.stalls", Show::kNumber},
                 {"ERR", "traffic.errors", Show::kNumber},
                 {"ADAPTER", "adapter", Show::kText, true},
                 {"NUMBER", "device_number", Show::kNumber, true},
                 {"UID", "owner.uid", Show::kNumber, true},
                 {"UNIT", "owner.unit", Show::kText, true},
                 {"CONTAINER", "owner.container", Show::kText, true},
                 {"WAKEUPS", "traffic.wakeups", Show::kNumber, true},
                 {"COMMAND", "owner.command", Show::kText, true}},
                RowOfQueuePair({})};
  noun.fetch = FetchQueuePairs;
  noun.rates = {{"traffic.tx_bytes", "tx_bytes_per_second"}, {"traffic.rx_bytes", "rx_bytes_per_second"}};
  AddNoun(root, context, noun);
}

}  // namespace nd::cli
