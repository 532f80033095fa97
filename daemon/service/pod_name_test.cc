// SPDX-License-Identifier: Apache-2.0
// The names of pods, on real registrations.
#include "daemon/service/pod_name.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "daemon/pods/pod_registry.h"
#include "daemon/service/cgroup_name.h"

namespace nd::service {
namespace {

const std::string kContainerId = "3f2a91c7d4e85b6012a3f4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809";
const std::string kPodUid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

class PodNameTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/nd-pods-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    root_ = path;
    ASSERT_TRUE(pods::Registry(directory()).Add("csi-1", {kPodUid, "shop", "web-1", "robot"}).ok());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string directory() const { return root_ / "pods"; }
  core::Identity IdentityOf(const std::string& cgroup) const {
    core::Identity who;
    who.cgroup = cgroup;
    who.container = OwnerOfCgroup(cgroup).container;
    NamePod(directory(), who);
    return who;
  }
  std::string NameOf(const std::string& cgroup) const { return IdentityOf(cgroup).container; }

  std::filesystem::path root_;
};

TEST_F(PodNameTest, ARegisteredPodHasItsName) {
  EXPECT_EQ(NameOf("/kubepods/besteffort/pod" + kPodUid + "/" + kContainerId),
            "pod shop/web-1/" + kContainerId);
  EXPECT_EQ(NameOf("/kubepods/besteffort/pod" + kPodUid), "pod shop/web-1");
}

TEST_F(PodNameTest, RulesSeeThePodAsTheKubeletNamedIt) {
  const core::PodName pod = IdentityOf("/kubepods/besteffort/pod" + kPodUid + "/" + kContainerId).pod;
  EXPECT_EQ(pod.namespace_name, "shop");
  EXPECT_EQ(pod.name, "web-1");
  EXPECT_EQ(pod.service_account, "robot");
  const core::PodName forged =
      IdentityOf("/user.slice/kubepods/besteffort/pod" + kPodUid + "/" + kContainerId).pod;
  EXPECT_EQ(forged.name + forged.namespace_name + forged.service_account, "");
}

TEST_F(PodNameTest, GroupThatOnlyHasThePathOfAPodGetsNoName) {
  const std::string forged =
      "/user.slice/user-1000.slice/user@1000.service/kubepods/besteffort/pod" + kPodUid + "/" + kContainerId;
  EXPECT_EQ(NameOf(forged), "pod " + kPodUid + "/" + kContainerId);
}

TEST_F(PodNameTest, WithoutRegistrationOrTrustThereIsTheUid) {
  const std::string cgroup = "/kubepods/besteffort/pod" + kPodUid + "/" + kContainerId;
  ASSERT_EQ(::chmod(directory().c_str(), 0777), 0);  // Any user could have written the registration now.
  EXPECT_EQ(NameOf(cgroup), "pod " + kPodUid + "/" + kContainerId);
  ASSERT_EQ(::chmod(directory().c_str(), 0755), 0);
  ASSERT_TRUE(pods::Registry(directory()).Remove("csi-1").ok());
  EXPECT_EQ(NameOf(cgroup), "pod " + kPodUid + "/" + kContainerId);
  EXPECT_EQ(NameOf("/system.slice/nvmet.service"), "");
}

}  // namespace
}  // namespace nd::service
