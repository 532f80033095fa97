// SPDX-License-Identifier: Apache-2.0
#include "daemon/csi/pod_volume.h"

#include <gtest/gtest.h>

namespace nd::csi {
namespace {

constexpr char kUid[] = "0a1b2c3d-0000-1111-2222-333344445555";

std::map<std::string, std::string> Context() {
  return {{"csi.storage.k8s.io/pod.name", "web-1"},
          {"csi.storage.k8s.io/pod.namespace", "shop"},
          {"csi.storage.k8s.io/pod.uid", kUid},
          {"csi.storage.k8s.io/serviceAccount.name", "default"},
          {"csi.storage.k8s.io/ephemeral", "true"}};
}

TEST(PodVolume, TakesThePodFromTheKubelet) {
  const Result<pods::Pod> pod = PodOf(Context());
  ASSERT_TRUE(pod.ok()) << pod.status().ToString();
  EXPECT_EQ(*pod, (pods::Pod{kUid, "shop", "web-1", "default"}));
}

TEST(PodVolume, NamesTheRemedy) {
  auto context = Context();
  context.erase("csi.storage.k8s.io/pod.uid");
  EXPECT_NE(PodOf(context).status().message().find("podInfoOnMount"), std::string::npos);
  context = Context();
  context["csi.storage.k8s.io/ephemeral"] = "false";
  EXPECT_NE(PodOf(context).status().message().find("inline"), std::string::npos);
  context = Context();
  context["csi.storage.k8s.io/pod.namespace"] = "shop\nname admin";
  EXPECT_EQ(PodOf(context).code(), StatusCode::kInvalidParameter);
}

TEST(PodVolume, MountsOnlyWhereTheKubeletKeepsVolumesOfThatPod) {
  const std::string base = "/var/lib/kubelet",
                    good = base + "/pods/" + kUid + "/volumes/kubernetes.io~csi/nd/mount";
  EXPECT_TRUE(CheckTarget(good, base, kUid).ok());
  EXPECT_TRUE(CheckTarget(good, base, "").ok());
  EXPECT_FALSE(CheckTarget(good, base, "ffffffff-0000-1111-2222-333344445555").ok());
  for (const std::string& bad : {std::string(), std::string("/etc"), good + "/", good + "/../../../..",
                                 "/x" + good, base + "/pods/../volumes/kubernetes.io~csi/nd/mount",
                                 base + "/pods/" + kUid + "/volumes/kubernetes.io~csi/../mount",
                                 base + "/pods/" + kUid + "/volumes/kubernetes.io~csi/a/b/mount",
                                 base + "/pods/" + kUid + "/volumes/kubernetes.io~secret/nd/mount"}) {
    EXPECT_EQ(CheckTarget(bad, base, kUid).code(), StatusCode::kInvalidParameter) << bad;
    EXPECT_EQ(CheckTarget(bad, base, "").code(), StatusCode::kInvalidParameter) << bad;
  }
}

}  // namespace
}  // namespace nd::csi
