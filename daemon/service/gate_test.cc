// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace nd::service {
namespace {

struct Admissions {
  std::vector<std::uint32_t> uids;
  ops::Door door;
  Gate gate;
  bool fail = false;  // Each connection has ended when it is admitted.
  int rests = 0;
  std::uint64_t Refused(ops::Refusal why) const { return door.refused[static_cast<std::size_t>(why)]; }
  explicit Admissions(Gate::Limits limits)
      : gate(
            "test", door, limits,
            [this](UniqueFd, const Peer& peer) {
              uids.push_back(peer.uid);
              if (fail) gate.Gone(peer.uid, false);
            },
            [this] { ++rests; }) {}
  void Offer(std::uint32_t uid) {
    Peer peer;
    peer.uid = uid;
    gate.Offer(UniqueFd(), peer);
  }
};

TEST(Gate, OneUserCannotTakeEveryPlace) {
  Admissions a({.unproven = 4, .unproven_per_uid = 3, .per_uid = 100, .waiting = 10});
  for (int i = 0; i < 8; ++i) a.Offer(1);
  EXPECT_EQ(a.uids.size(), 3u);
  EXPECT_EQ(a.gate.waiting(), 5u) << "five wait, which is half of the waiting room";
  a.Offer(1);
  EXPECT_EQ(a.gate.waiting(), 5u) << "the sixth was refused";
  EXPECT_EQ(a.Refused(ops::Refusal::kCrowded), 1u);
  EXPECT_EQ(a.Refused(ops::Refusal::kUserLimit), 0u);
  EXPECT_EQ(a.gate.total(1), 8u);
  a.Offer(2);
  EXPECT_EQ(a.uids.back(), 2u) << "another user does not wait behind users at their limit";
}

TEST(Gate, PlacesAreGivenInOrder) {
  Admissions a({.unproven = 2, .unproven_per_uid = 2, .per_uid = 100, .waiting = 10});
  a.Offer(1);
  a.Offer(1);
  a.Offer(2);
  a.Offer(3);
  EXPECT_EQ(a.uids, (std::vector<std::uint32_t>{1, 1}));
  a.gate.Proven(1);
  EXPECT_EQ(a.uids, (std::vector<std::uint32_t>{1, 1, 2}));
  a.gate.Gone(1, /*was_proven=*/false);
  EXPECT_EQ(a.uids, (std::vector<std::uint32_t>{1, 1, 2, 3}));
  a.gate.Gone(1, true);
  a.gate.Gone(2, false);
  a.gate.Gone(3, false);
  EXPECT_EQ(a.gate.unproven(), 0u);
  EXPECT_EQ(a.gate.total(1) + a.gate.total(2) + a.gate.total(3), 0u);
}

TEST(Gate, ConnectionsThatHaveEndedAreAdmittedInSteps) {
  Admissions a({.unproven = 1, .unproven_per_uid = 1, .per_uid = 100, .waiting = 100});
  a.Offer(1);
  for (int i = 0; i < 20; ++i) a.Offer(2);
  a.fail = true;
  a.gate.Gone(1, false);
  EXPECT_EQ(a.uids.size(), 1u + Gate::kAtOnce);
  EXPECT_EQ(a.rests, 1);
  a.gate.AdmitWaiting();
  a.gate.AdmitWaiting();
  EXPECT_EQ(a.uids.size(), 21u);
  EXPECT_EQ(a.rests, 2);
  EXPECT_EQ(a.gate.waiting(), 0u);
  EXPECT_EQ(a.gate.total(2), 0u);
}

TEST(Gate, ProvenConnectionsCountForTheUserOnly) {
  Admissions a({.unproven = 2, .unproven_per_uid = 2, .per_uid = 3, .waiting = 10});
  for (int i = 0; i < 3; ++i) {
    a.Offer(7);
    a.gate.Proven(7);
  }
  EXPECT_EQ(a.uids.size(), 3u);
  a.Offer(7);
  EXPECT_EQ(a.uids.size(), 3u) << "the user's own limit";
  EXPECT_EQ(a.Refused(ops::Refusal::kUserLimit), 1u);
  EXPECT_EQ(a.Refused(ops::Refusal::kCrowded), 0u);
  a.gate.Gone(7, true);
  a.Offer(7);
  EXPECT_EQ(a.uids.size(), 4u);
}

}  // namespace
}  // namespace nd::service
