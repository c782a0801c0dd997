// Words and links; what is chosen among checkpoints is in trainer_resume_test.
#include "shardwright/core/trainer/start_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;
using Kind = ResumeWish::Kind;

TEST(ParseResumeWishTest, KnowsItsWords) {
  SW_ASSERT_OK_AND_ASSIGN(const ResumeWish automatic, ParseResumeWish("auto"));
  EXPECT_EQ(automatic.kind, Kind::kAuto);
  SW_ASSERT_OK_AND_ASSIGN(const ResumeWish none, ParseResumeWish("none"));
  EXPECT_EQ(none.kind, Kind::kNone);
  SW_ASSERT_OK_AND_ASSIGN(const ResumeWish step, ParseResumeWish("0100"));
  EXPECT_EQ(step.kind, Kind::kStep);
  EXPECT_EQ(step.step, 100);
}

TEST(ParseResumeWishTest, AnythingElseIsAPath) {
  for (const char* text : {"-5", "1e3", "./100", "Auto", "file:none", "last"}) {
    SW_ASSERT_OK_AND_ASSIGN(const ResumeWish wish, ParseResumeWish(text));
    EXPECT_EQ(wish.kind, Kind::kPath) << text;
    EXPECT_EQ(wish.path, text);
  }
}

TEST(ParseResumeWishTest, NothingAndHugeStepsAreRefused) {
  EXPECT_THAT(ParseResumeWish(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("auto")));
  EXPECT_THAT(ParseResumeWish("99999999999999999999"), StatusIs(absl::StatusCode::kInvalidArgument));
}

class FollowLinksTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_THAT(storage_->CreateDirectories("a/real"), IsOk()); }
  const std::unique_ptr<Storage> storage_ = MakeMemoryStorage();
};

TEST_F(FollowLinksTest, GoesToTheRealOne) {
  ASSERT_THAT(storage_->Symlink("real", "a/last"), IsOk());
  ASSERT_THAT(storage_->Symlink("a/last", "top"), IsOk());
  EXPECT_THAT(FollowLinks(*storage_, "a/real"), IsOkAndHolds("a/real"));
  EXPECT_THAT(FollowLinks(*storage_, "a/last"), IsOkAndHolds("a/real"));
  EXPECT_THAT(FollowLinks(*storage_, "top"), IsOkAndHolds("a/real"));
}

TEST_F(FollowLinksTest, DanglingAndCircularLinksEnd) {
  ASSERT_THAT(storage_->Symlink("gone", "a/dangling"), IsOk());
  EXPECT_THAT(FollowLinks(*storage_, "a/dangling"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(storage_->Symlink("ring", "a/ring"), IsOk());
  EXPECT_THAT(FollowLinks(*storage_, "a/ring"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace shardwright
