// What ThreadCommunicator promises beyond the interface; that is tested by tests/conformance/comm.
#include "shardwright/core/comm/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;

TEST(ThreadCommunicatorTest, SumsInRankOrder) {
  const std::vector<float> values = {1e8f, 1.0f, -1e8f};
  const auto statuses = RunRanks(3, [&](CommGroups& groups) -> absl::Status {
    float value = values[groups.rank()];
    SW_RETURN_IF_ERROR(groups.data->AllReduce(&value, 1, DType::kFloat32, ReduceOp::kSum));
    EXPECT_EQ(value, (1e8f + 1.0f) - 1e8f);
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(IsOk()));
}

TEST(ThreadCommunicatorTest, DifferentCollectivesAreAnErrorOnAllRanks) {
  const auto statuses = RunRanks(3, [](CommGroups& groups) -> absl::Status {
    if (groups.rank() == 0) return groups.data->Barrier();
    int32_t value = 0;
    return groups.data->AllReduce(&value, 1, DType::kInt32, ReduceOp::kMax);
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                      AllOf(HasSubstr("Barrier"), HasSubstr("AllReduce(max of 1 I32)")))));
}

TEST(ThreadCommunicatorTest, DifferentCountsDtypesAndRootsAreErrors) {
  const std::vector<std::function<absl::Status(Communicator&, int32_t)>> calls = {
      [](Communicator& comm, int32_t rank) {
        std::vector<int32_t> values(4);
        return comm.AllReduce(values.data(), 1 + rank, DType::kInt32, ReduceOp::kSum);
      },
      [](Communicator& comm, int32_t rank) {
        float value = 0;
        return comm.AllReduce(&value, 1, rank ? DType::kInt32 : DType::kFloat32, ReduceOp::kSum);
      },
      [](Communicator& comm, int32_t rank) { return comm.BroadcastBytes("x", rank).status(); },
  };
  for (const auto& call : calls) {
    const auto statuses = RunRanks(2, [&](CommGroups& groups) { return call(*groups.data, groups.rank()); });
    EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("different collectives"))));
  }
}

TEST(ThreadCommunicatorTest, MissingRanksAreNamedAfterTheDeadline) {
  std::vector<CommGroups> groups = MakeThreadGroups(3, absl::Milliseconds(50));
  std::unique_ptr<Work> work;
  int32_t value = 0;
  SW_ASSERT_OK_AND_ASSIGN(work, groups[0].data->AllReduceAsync(&value, 1, DType::kInt32, ReduceOp::kSum));
  EXPECT_THAT(work->Wait(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                     Eq("AllReduce(sum of 1 I32): ranks 1, 2 did not answer within 50ms")));
}

TEST(ThreadCommunicatorTest, ARankThatComesTooLateWritesNowhere) {
  std::vector<CommGroups> groups = MakeThreadGroups(2, absl::Milliseconds(20));
  auto gone = std::make_unique<int32_t>(1);
  EXPECT_THAT(groups[0].data->AllReduce(gone.get(), 1, DType::kInt32, ReduceOp::kSum),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  gone.reset();  // the address sanitizer watches
  int32_t value = 1;
  EXPECT_THAT(groups[1].data->AllReduce(&value, 1, DType::kInt32, ReduceOp::kSum),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(value, 1);
}

TEST(ThreadCommunicatorTest, ARankThatReturnsEarlyHasLeft) {
  const auto statuses = RunRanks(3, [](CommGroups& groups) -> absl::Status {
    SW_RETURN_IF_ERROR(groups.data->Barrier());
    return groups.rank() == 2 ? absl::OkStatus() : groups.data->Barrier();
  });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kUnavailable, Eq("Barrier: rank 2 left")));
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kUnavailable, Eq("Barrier: rank 2 left")));
  EXPECT_THAT(statuses[2], IsOk());
}

TEST(ThreadCommunicatorTest, ManyWorksUnderWayKeepTheirOrder) {
  constexpr int kWorks = 100;
  const auto statuses = RunRanks(4, [](CommGroups& groups) -> absl::Status {
    std::vector<int64_t> values(kWorks);
    std::vector<std::unique_ptr<Work>> works(kWorks);
    for (int i = 0; i < kWorks; ++i) {
      values[i] = i * (groups.rank() + 1);
      SW_ASSIGN_OR_RETURN(works[i], groups.data->AllReduceAsync(&values[i], 1, DType::kInt64, ReduceOp::kSum));
    }
    for (int i = kWorks - 1; i >= 0; --i) SW_RETURN_IF_ERROR(works[i]->Wait());
    for (int i = 0; i < kWorks; ++i) EXPECT_EQ(values[i], i * 10);
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(IsOk()));
}

TEST(ThreadCommunicatorTest, AWorkMayOutliveItsCommunicator) {
  std::vector<CommGroups> groups = MakeThreadGroups(2);
  int32_t values[2] = {1, 2};
  SW_ASSERT_OK_AND_ASSIGN(auto work, groups[0].data->AllReduceAsync(&values[0], 1, DType::kInt32, ReduceOp::kSum));
  groups[0].data.reset();
  EXPECT_THAT(groups[1].data->AllReduce(&values[1], 1, DType::kInt32, ReduceOp::kSum), IsOk());
  EXPECT_THAT(work->Wait(), IsOk());
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
}

}  // namespace
}  // namespace shardwright
