// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/roles.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ndbroker/v1/admin.pb.h"

namespace nd::gateway {
namespace {

TEST(Roles, StrongestNameCounts) {
  const Roles roles{{"root"}, {"eyes"}};
  EXPECT_EQ(RoleOf(roles, {"root"}), Role::kAdministrator);
  EXPECT_EQ(RoleOf(roles, {"eyes"}), Role::kViewer);
  EXPECT_EQ(RoleOf(roles, {"eyes", "root"}), Role::kAdministrator);
  EXPECT_EQ(RoleOf(roles, {"Root"}), Role::kNone);
  EXPECT_EQ(RoleOf(roles, {}), Role::kNone);
}

TEST(Roles, ReadOnlyMethodsNeedAViewerAndAllOthersAnAdministrator) {
  const google::protobuf::ServiceDescriptor* const service =
      ndbroker::v1::BrokerStatus::descriptor()->file()->FindServiceByName("Admin");
  ASSERT_NE(service, nullptr);
  // A new method must be added to one of the two lists.
  const std::set<std::string> changes = {"SetAdapter",  "KillConnection", "KillSession", "PauseListener",
                                         "ReservePort", "ReleasePort",    "Reload",      "Drain",
                                         "SkipTime",    "GetLog",         "GetConfig"};
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string method = "/ndbroker.v1.Admin/" + service->method(i)->name();
    EXPECT_TRUE(May(Role::kAdministrator, method));
    EXPECT_EQ(May(Role::kViewer, method), !changes.contains(service->method(i)->name())) << method;
    EXPECT_FALSE(May(Role::kNone, method));
  }
}

TEST(Roles, OtherServicesAreRefusedForEveryRole) {
  EXPECT_FALSE(May(Role::kAdministrator, "/ndbroker.v1.Broker/Session"));
  EXPECT_FALSE(May(Role::kAdministrator, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"));
  EXPECT_FALSE(May(Role::kNone, "/ndbroker.v1.Admin/GetStatus"));
}

}  // namespace
}  // namespace nd::gateway
