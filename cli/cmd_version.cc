// SPDX-License-Identifier: Apache-2.0
// ndctl version: the versions of ndctl and, if it answers, of the broker.
#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/version.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {
namespace {

Failure Version(Context& context) {
  Value row = Value::MakeObject();
  row.Set("ndctl", kVersion);
  ndbroker::v1::BrokerStatus status;
  const Failure failure = context.admin().GetStatus(ndbroker::v1::GetStatusRequest(), &status);
  row.Set("broker", failure ? Value() : Value(status.version()))
      .Set("protocol", kApiVersion)
      .Set("grpc", AdminClient::GrpcVersion())
      .Set("directory", context.admin().directory());
  // The version of ndctl is shown even without a broker.
  if (failure) row.Set("broker_error", failure->message);
  const Shape shape{
      "Version", "ndctl", {{"NDCTL", "ndctl"}, {"BROKER", "broker"}, {"DIRECTORY", "directory"}}, row};
  return context.WriteOne(shape, row);
}

}  // namespace

void AddVersion(Command root, Context& context) {
  Command app = root.Add("version", "Versions of ndctl and of the broker");
  app.OnRun(context, [&context] { return Version(context); });
}

}  // namespace nd::cli
