// SPDX-License-Identifier: Apache-2.0
// ndctl version: of this tool, and of the broker if one answers.
#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/version.h"

namespace nd::cli {
namespace {

Failure Version(Context& context) {
  Value row = Value::MakeObject();
  row.Set("ndctl", kVersion);
  ndbroker::v1::BrokerStatus status;
  const Failure failure =
      context.admin().Call(&AdminClient::Stub::GetStatus, ndbroker::v1::GetStatusRequest(), &status);
  row.Set("broker", failure ? Value() : Value(status.version()))
      .Set("protocol", kApiVersion)
      .Set("grpc", grpc::Version())
      .Set("directory", context.admin().directory());
  // The tool's own version is an answer even without a broker.
  if (failure) row.Set("broker_error", failure->message);
  const Shape shape{
      "Version", "ndctl", {{"NDCTL", "ndctl"}, {"BROKER", "broker"}, {"DIRECTORY", "directory"}}, row};
  return context.WriteOne(shape, row);
}

}  // namespace

void AddVersion(CLI::App& root, Context& context) {
  CLI::App* app = root.add_subcommand("version", "Versions of ndctl and of the broker");
  app->fallthrough();
  app->callback([&context] { context.run = [&context] { return Version(context); }; });
}

}  // namespace nd::cli
