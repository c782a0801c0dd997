// CommGroups and AgreeOnStatus, over threads.
#include "shardwright/core/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;

// What each rank hears if each brings its own status.
std::vector<absl::Status> Agree(const std::vector<absl::Status>& statuses) {
  std::vector<absl::Status> agreed(statuses.size());
  const auto ran = RunRanks(static_cast<int32_t>(statuses.size()), [&](CommGroups& groups) {
    agreed[groups.rank()] = AgreeOnStatus(*groups.control, statuses[groups.rank()]);
    return groups.control->Barrier();  // agreeing on a failure breaks nothing
  });
  EXPECT_THAT(ran, Each(IsOk()));
  return agreed;
}

TEST(AgreeOnStatusTest, OkIfAllAreOk) {
  EXPECT_THAT(Agree({absl::OkStatus(), absl::OkStatus()}), Each(IsOk()));
}

TEST(AgreeOnStatusTest, OneFailureReachesAllAndNamesItsRank) {
  const auto agreed = Agree({absl::OkStatus(), absl::DataLossError("bad chunk"), absl::OkStatus()});
  EXPECT_THAT(agreed[0], StatusIs(absl::StatusCode::kDataLoss, Eq("rank 1: bad chunk")));
  EXPECT_THAT(agreed[1], StatusIs(absl::StatusCode::kDataLoss, Eq("bad chunk")));
  EXPECT_EQ(agreed[2], agreed[0]);
}

TEST(AgreeOnStatusTest, TheLowestRankWinsAndDifferentFailuresAreCounted) {
  const auto agreed =
      Agree({absl::OkStatus(), absl::NotFoundError("a"), absl::DataLossError("b"), absl::DataLossError("b")});
  EXPECT_THAT(agreed[0],
              StatusIs(absl::StatusCode::kNotFound, Eq("rank 1: a (one of 2 different failures on 3 of 4 ranks)")));
  EXPECT_THAT(agreed[1], StatusIs(absl::StatusCode::kNotFound, Eq("a (one of 2 different failures on 3 of 4 ranks)")));
}

TEST(AgreeOnStatusTest, TheSameFailureEverywhereIsNotCounted) {
  const auto agreed = Agree({absl::InvalidArgumentError("no"), absl::InvalidArgumentError("no")});
  EXPECT_THAT(agreed[0], StatusIs(absl::StatusCode::kInvalidArgument, Eq("no")));
  EXPECT_THAT(agreed[1], StatusIs(absl::StatusCode::kInvalidArgument, Eq("rank 0: no")));
}

TEST(AgreeOnStatusTest, EmptyAndBinaryMessagesArePassedOn) {
  const std::string binary("\0\xff\n", 3);
  EXPECT_THAT(Agree({absl::InternalError(""), absl::OkStatus()})[1],
              StatusIs(absl::StatusCode::kInternal, Eq("rank 0: ")));
  EXPECT_THAT(Agree({absl::OkStatus(), absl::AbortedError(binary)})[0],
              StatusIs(absl::StatusCode::kAborted, Eq("rank 1: " + binary)));
}

TEST(AgreeOnStatusTest, InABrokenGroupOnesOwnFailureIsReported) {
  const auto statuses = RunRanks(2, [](CommGroups& groups) -> absl::Status {
    if (groups.rank() == 0) return absl::DataLossError("first");
    while (groups.control->Barrier().ok()) {
    }
    EXPECT_THAT(AgreeOnStatus(*groups.control, absl::OkStatus()), StatusIs(absl::StatusCode::kUnavailable));
    return AgreeOnStatus(*groups.control, absl::NotFoundError("mine"));
  });
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kNotFound, Eq("mine")));
}

TEST(CommGroupsTest, AbandonEndsAllThree) {
  std::vector<CommGroups> groups = MakeThreadGroups(2);
  groups[1].Abandon(absl::DataLossError("bad chunk"));
  for (Communicator* comm : {groups[0].data.get(), groups[0].control.get(), groups[0].checkpoint.get()}) {
    EXPECT_THAT(comm->Barrier(), StatusIs(absl::StatusCode::kUnavailable, Eq("rank 1 failed: bad chunk")));
  }
}

TEST(CommGroupsTest, ThoseWhoEndBecauseOfAFailureDoNotHideIt) {
  std::vector<CommGroups> groups = MakeThreadGroups(3);
  groups[1].data->Abandon(absl::DataLossError("bad chunk"));
  groups[0].Abandon(groups[0].data->Barrier());
  EXPECT_THAT(groups[2].control->Barrier(), StatusIs(absl::StatusCode::kUnavailable, Eq("rank 1 failed: bad chunk")));
}

}  // namespace
}  // namespace shardwright
