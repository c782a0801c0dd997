// What stands in for nccl_conformance_test in builds without --config=cuda.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/tests/conformance/comm/c10d_ranks.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(NoNccl, GroupsOnGpusAreRefusedSayingWhatToDo) {
  for (int32_t size : {1, 2}) {
    const auto statuses = RunC10dRanks(
        size, Device::Kind::kCuda, [](CommGroups&) { return absl::OkStatus(); }, absl::Minutes(1));
    EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kUnimplemented,
                                        AllOf(HasSubstr("ranks on cuda:"), HasSubstr("build it with --config=cuda")))));
  }
}

}  // namespace
}  // namespace shardwright
