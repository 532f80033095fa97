// SPDX-License-Identifier: Apache-2.0
// Registrations on real files, also those that an enemy prepared.
#include "daemon/pods/pod_registry.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace nd::pods {
namespace {

namespace fs = std::filesystem;

const Pod kWeb{"0a1b2c3d-0000-1111-2222-333344445555", "shop", "web-1.a", "default"};
const Pod kOther{"ffffffff-0000-1111-2222-333344445555", "bank", "vault-0", ""};

class RegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/nd-pods-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    root_ = path;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string directory() const { return root_ / "pods"; }

  fs::path root_;
};

TEST(PodText, ComesBackAsItWasWritten) {
  for (const Pod& pod : {kWeb, kOther}) {
    const Result<Pod> parsed = Parse(Encode(pod));
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(*parsed, pod);
  }
}

TEST(PodText, EveryDamageIsRefused) {
  const std::string good = Encode(kWeb);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(Parse(good.substr(0, length)).code(), StatusCode::kInvalidParameter) << length;
  }
  EXPECT_FALSE(Parse(good + "name other\n").ok());
  for (const char* name : {"", "A", "a/b", "a\nuid x", "-a", "a-", "a b"}) {
    Pod pod = kWeb;
    pod.name = name;
    EXPECT_EQ(Check(pod).code(), StatusCode::kInvalidParameter) << name;
    pod = kWeb;
    pod.namespace_name = name;
    EXPECT_EQ(Check(pod).code(), StatusCode::kInvalidParameter) << name;
  }
}

TEST(PodText, UidsAndVolumes) {
  EXPECT_TRUE(IsPodUid("0a1b2c3d000011112222333344445555"));
  for (const char* uid : {"", "0A1B2C3D-0000-1111-2222-333344445555", "0a1b2c3d-0000-1111-2222-33334444555/",
                          "0a1b2c3d_0000_1111_2222_333344445555", "../../../../../../../../etc/passwd//"}) {
    EXPECT_FALSE(IsPodUid(uid)) << uid;
  }
  EXPECT_TRUE(IsVolumeId("csi-0f0f"));
  for (const char* id : {"", ".", "..", "a/b", "a~b", ".hidden"}) EXPECT_FALSE(IsVolumeId(id)) << id;
}

TEST_F(RegistryTest, AddsFindsAndRemoves) {
  const Registry registry(directory());
  EXPECT_EQ(*registry.OfUid(kWeb.uid), std::nullopt);  // There is no directory yet.
  EXPECT_TRUE(registry.Remove("csi-1").ok());
  ASSERT_TRUE(registry.Add("csi-1", kWeb).ok());
  ASSERT_TRUE(registry.Add("csi-1", kWeb).ok());
  EXPECT_EQ(registry.Add("csi-1", kOther).code(), StatusCode::kAddressAlreadyExists);
  ASSERT_TRUE(registry.Add("csi-2", kWeb).ok());  // A second volume of the pod.
  EXPECT_EQ(*registry.OfUid(kWeb.uid), kWeb);
  EXPECT_EQ(*registry.OfVolume("csi-1"), kWeb);
  EXPECT_EQ(*registry.OfUid(kOther.uid), std::nullopt);
  ASSERT_TRUE(registry.Remove("csi-1").ok());
  EXPECT_EQ(*registry.OfVolume("csi-1"), std::nullopt);
  EXPECT_EQ(*registry.OfUid(kWeb.uid), kWeb);
  ASSERT_TRUE(registry.Remove("csi-2").ok());
  EXPECT_EQ(*registry.OfUid(kWeb.uid), std::nullopt);
  EXPECT_TRUE(fs::is_empty(directory()));
}

TEST_F(RegistryTest, DirectoryWritableByOthersIsNotTrusted) {
  const Registry registry(directory());
  ASSERT_TRUE(registry.Add("csi-1", kWeb).ok());
  ASSERT_EQ(::chmod(directory().c_str(), 0777), 0);
  EXPECT_EQ(registry.OfUid(kWeb.uid).code(), StatusCode::kAccessDenied);
  EXPECT_EQ(registry.Add("csi-2", kWeb).code(), StatusCode::kAccessDenied);
  ASSERT_EQ(::chmod(directory().c_str(), 0755), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(directory().c_str(), 65534, 65534), 0);
    EXPECT_EQ(registry.OfUid(kWeb.uid).code(), StatusCode::kAccessDenied);
    ASSERT_EQ(::chown(directory().c_str(), 0, 0), 0);
  }
  fs::rename(directory(), root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", directory());
  EXPECT_FALSE(registry.OfUid(kWeb.uid).ok());
}

TEST_F(RegistryTest, FileOfAnotherPodGivesNoName) {
  const Registry registry(directory());
  ASSERT_TRUE(registry.Add("csi-1", kWeb).ok());
  fs::rename(directory() + "/" + kWeb.uid + "~csi-1", directory() + "/" + kOther.uid + "~csi-1");
  EXPECT_EQ(registry.OfUid(kOther.uid).code(), StatusCode::kInvalidParameter);
  std::ofstream(directory() + "/" + kOther.uid + "~csi-1", std::ios::trunc) << "nonsense";
  EXPECT_EQ(registry.OfUid(kOther.uid).code(), StatusCode::kInvalidParameter);
}

}  // namespace
}  // namespace nd::pods
