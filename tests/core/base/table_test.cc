#include "shardwright/core/base/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Table, FindsRows) {
  const Table<int> table("strategy", {{"ddp", 1}, {"zero3", 3}});
  EXPECT_THAT(table.Find("zero3"), IsOkAndHolds(3));
  EXPECT_THAT(table.Names(), ElementsAre("ddp", "zero3"));
}

TEST(Table, AMissNamesTheKindTheNearestAndAllKnown) {
  const Table<int> table("strategy", {{"ddp", 1}, {"zero3", 3}});
  EXPECT_THAT(table.Find("zero4"), StatusIs(absl::StatusCode::kInvalidArgument,
                                            "unknown strategy \"zero4\", did you mean \"zero3\"? (known: ddp, zero3)"));
  EXPECT_THAT(table.Find("pipeline"), StatusIs(absl::StatusCode::kInvalidArgument,
                                               AllOf(HasSubstr("known: ddp, zero3"), Not(HasSubstr("did you mean")))));
}

TEST(Table, AddAppendsOrReplaces) {
  Table<int> table("strategy", {{"ddp", 1}});
  table.Add("mine", 7);
  table.Add("ddp", 2);
  EXPECT_THAT(table.Names(), ElementsAre("ddp", "mine"));
  EXPECT_THAT(table.Find("ddp"), IsOkAndHolds(2));
}

}  // namespace
}  // namespace shardwright
