// SPDX-License-Identifier: Apache-2.0
// Lines that real hosts and engines write.
#include "daemon/service/cgroup_name.h"

#include <gtest/gtest.h>

namespace nd::service {
namespace {

const std::string kId = "3f2a91c7d4e85b6012a3f4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809";
const std::string kPod = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
const std::string kPodEscaped = "0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9";

struct Case {
  const char* what;
  std::string path, unit, container;
};

class OwnerOfCgroupTest : public ::testing::TestWithParam<Case> {};

TEST_P(OwnerOfCgroupTest, NamesUnitAndContainer) {
  const CgroupOwner owner = OwnerOfCgroup(GetParam().path);
  EXPECT_EQ(owner.unit, GetParam().unit) << GetParam().path;
  EXPECT_EQ(owner.container, GetParam().container) << GetParam().path;
}

struct PodCase {
  const char* what;
  std::string path, uid;
};

class PodUidTest : public ::testing::TestWithParam<PodCase> {};

TEST_P(PodUidTest, OnlyGroupsOfTheKubeletProveAPod) {
  EXPECT_EQ(PodUidOfCgroup(GetParam().path), GetParam().uid) << GetParam().path;
}

const std::string kSlice = "kubepods-burstable-pod" + kPodEscaped + ".slice";
INSTANTIATE_TEST_SUITE_P(
    Paths, PodUidTest,
    ::testing::Values(
        PodCase{"Systemd",
                "/kubepods.slice/kubepods-burstable.slice/" + kSlice + "/cri-containerd-" + kId + ".scope",
                kPod},
        PodCase{"Guaranteed", "/kubepods.slice/kubepods-pod" + kPodEscaped + ".slice/crio-" + kId + ".scope",
                kPod},
        PodCase{"Cgroupfs", "/kubepods/besteffort/pod" + kPod + "/" + kId, kPod},
        PodCase{"CgroupfsGuaranteed", "/kubepods/pod" + kPod + "/" + kId, kPod},
        PodCase{"FromABrokerInAPodOfTheSameClass", "/../../" + kSlice + "/cri-containerd-" + kId + ".scope",
                kPod},
        PodCase{"FromABrokerInAPodOfAnotherClass",
                "/../../../kubepods-burstable.slice/" + kSlice + "/cri-containerd-" + kId + ".scope", kPod},
        PodCase{"FromAServiceOfTheNode",
                "/../../kubepods.slice/kubepods-burstable.slice/" + kSlice + "/x.scope", kPod},
        // A user may choose the names of control groups below one of his own.
        PodCase{"ForgedByAUser",
                "/user.slice/user-1000.slice/user@1000.service/kubepods.slice/" + kSlice + "/x", ""},
        PodCase{"ForgedSeenFromAPod", "/../../../user.slice/user-1000.slice/" + kSlice + "/x", ""},
        PodCase{"ForgedInAService", "/system.slice/job.service/pod" + kPod, ""},
        PodCase{"ForgedInAContainer", "/system.slice/docker-" + kId + ".scope/kubepods/pod" + kPod, ""},
        PodCase{"ForgedInAPod",
                "/kubepods/burstable/pod" + kPod + "/" + kId + "/kubepods/podffffffff" + kPod.substr(8),
                kPod},
        PodCase{"NoUid", "/kubepods.slice/kubepods-podx.slice", ""},
        PodCase{"Kubepods", "/kubepods.slice", ""}, PodCase{"Nothing", "", ""}, PodCase{"Root", "/", ""},
        PodCase{"Up", "/../..", ""}),
    [](const auto& test) { return test.param.what; });

INSTANTIATE_TEST_SUITE_P(
    Paths, OwnerOfCgroupTest,
    ::testing::Values(
        Case{"Root", "/", "", ""}, Case{"Nothing", "", "", ""}, Case{"Init", "/init.scope", "init.scope", ""},
        Case{"Service", "/system.slice/nvmet.service", "nvmet.service", ""},
        Case{"Template", "/system.slice/system-mpi.slice/mpi@node-3.service", "mpi@node-3.service", ""},
        Case{"Delegated", "/system.slice/slurmd.service/job_17/step_0/task_1", "slurmd.service", ""},
        Case{"Login", "/user.slice/user-1000.slice/session-3.scope", "session-3.scope", ""},
        Case{"UserManager", "/user.slice/user-1000.slice/user@1000.service/app.slice", "user@1000.service",
             ""},
        Case{"UserUnit", "/user.slice/user-1000.slice/user@1000.service/app.slice/app-foo-1.scope",
             "app-foo-1.scope", ""},
        Case{"DockerSystemd", "/system.slice/docker-" + kId + ".scope", "", kId},
        Case{"DockerCgroupfs", "/docker/" + kId, "", kId},
        Case{"SystemdInDocker", "/system.slice/docker-" + kId + ".scope/system.slice/app.service",
             "app.service", kId},
        Case{"Podman", "/machine.slice/libpod-" + kId + ".scope/container", "", kId},
        Case{"PodmanRootless",
             "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope/container",
             "", kId},
        Case{"PodmanMonitor", "/machine.slice/libpod-conmon-" + kId + ".scope",
             "libpod-conmon-" + kId + ".scope", ""},
        Case{"KubeContainerd",
             "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kPodEscaped +
                 ".slice/cri-containerd-" + kId + ".scope",
             "", "pod " + kPod + "/" + kId},
        Case{"KubeGuaranteed", "/kubepods.slice/kubepods-pod" + kPodEscaped + ".slice/crio-" + kId + ".scope",
             "", "pod " + kPod + "/" + kId},
        Case{"KubeCgroupfs", "/kubepods/besteffort/pod" + kPod + "/" + kId, "", "pod " + kPod + "/" + kId},
        Case{"KubeStaticPod", "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + kId, "",
             "pod 0123456789abcdef0123456789abcdef/" + kId},
        Case{"KubeByColon",
             "/system.slice/containerd.service/kubepods-burstable-pod" + kPodEscaped +
                 ".slice:cri-containerd:" + kId,
             "", kId},
        Case{"PodSandbox", "/kubepods.slice/kubepods-pod" + kPodEscaped + ".slice", "", "pod " + kPod},
        Case{"NestedContainers", "/docker/" + kId + "/kubepods/pod" + kPod + "/" + kId, "",
             "pod " + kPod + "/" + kId},
        Case{"LxcPayload", "/lxc.payload.web-1/system.slice/nginx.service", "nginx.service", "web-1"},
        Case{"LxcOld", "/lxc/web-1", "", "web-1"},
        Case{"Nspawn", "/machine.slice/machine-build.scope", "", "build"},
        Case{"NoContainer", "/system.slice/docker.service", "docker.service", ""},
        Case{"ShortId", "/docker/3f2a91c7", "", ""},
        Case{"OutsideOurNamespace", "/../../system.slice/nvmet.service", "nvmet.service", ""},
        Case{"PodInAName", "/system.slice/podman.service", "podman.service", ""}),
    [](const auto& of) { return std::string(of.param.what); });

TEST(CgroupPath, PrefersTheUnifiedHierarchy) {
  EXPECT_EQ(CgroupPath("0::/system.slice/nvmet.service\n"), "/system.slice/nvmet.service");
  EXPECT_EQ(CgroupPath("0::/system.slice/a:b.service\n"), "/system.slice/a:b.service");
  EXPECT_EQ(CgroupPath("0::/\n"), "/");
}

TEST(CgroupPath, FallsBackToTheSystemdHierarchyOnHybridHosts) {
  EXPECT_EQ(CgroupPath("12:memory:/user.slice\n"
                       "3:cpu,cpuacct:/user.slice\n"
                       "1:name=systemd:/user.slice/user-0.slice/session-1.scope\n"
                       "0::/user.slice/user-0.slice/session-1.scope\n"),
            "/user.slice/user-0.slice/session-1.scope");
  EXPECT_EQ(CgroupPath("11:memory:/docker/x\n1:name=systemd:/docker/x\n0::/\n"), "/docker/x");
  EXPECT_EQ(CgroupPath("11:memory:/docker/x\n1:name=systemd:/docker/y\n"), "/docker/y");
}

TEST(CgroupPath, IsEmptyForMalformedText) {
  for (const char* text : {"", "\n", "0", "0:", "0::", "0::relative\n", "::::", "4:memory:/a\n"}) {
    EXPECT_EQ(CgroupPath(text), "") << text;
  }
}

}  // namespace
}  // namespace nd::service
