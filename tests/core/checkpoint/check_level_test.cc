#include "shardwright/core/checkpoint/check_level.h"

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

TEST(CheckLevelTest, Names) {
  EXPECT_THAT(ParseCheckLevel("off"), testing::IsOkAndHolds(CheckLevel::kOff));
  EXPECT_THAT(ParseCheckLevel("quick"), testing::IsOkAndHolds(CheckLevel::kQuick));
  EXPECT_THAT(ParseCheckLevel("full"), testing::IsOkAndHolds(CheckLevel::kFull));
  EXPECT_THAT(ParseCheckLevel("ful"),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("off, quick, full")));
}

}  // namespace
}  // namespace shardwright
