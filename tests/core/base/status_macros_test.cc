#include "shardwright/core/base/status_macros.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/strings/cord.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;

absl::Status Save(const absl::Status& outcome, int* after) {
  SW_RETURN_IF_ERROR(outcome) << "saving "
                              << "model"
                              << " at step " << 7;
  ++*after;
  return absl::OkStatus();
}

TEST(ReturnIfError, GoesOnWhenOk) {
  int after = 0;
  EXPECT_THAT(Save(absl::OkStatus(), &after), IsOk());
  EXPECT_EQ(after, 1);
}

TEST(ReturnIfError, PutsContextInFrontAndKeepsTheCode) {
  int after = 0;
  EXPECT_THAT(Save(absl::DataLossError("disk gone"), &after),
              StatusIs(absl::StatusCode::kDataLoss, "saving model at step 7: disk gone"));
  EXPECT_EQ(after, 0);
}

TEST(ReturnIfError, KeepsPayloads) {
  absl::Status failed = absl::DataLossError("x");
  failed.SetPayload("rank", absl::Cord("3"));
  int after = 0;
  EXPECT_EQ(Save(failed, &after).GetPayload("rank"), absl::Cord("3"));
}

absl::StatusOr<int> Halve(absl::StatusOr<int> number) {
  SW_RETURN_IF_ERROR(number);
  return *number / 2;
}

TEST(ReturnIfError, TakesAndReturnsStatusOr) {
  EXPECT_THAT(Halve(8), IsOkAndHolds(4));
  EXPECT_THAT(Halve(absl::NotFoundError("no number")), StatusIs(absl::StatusCode::kNotFound, "no number"));
}

TEST(ReturnIfError, BindsToTheRightElse) {
  const auto run = [](bool check) -> absl::Status {
    if (check)
      SW_RETURN_IF_ERROR(absl::InternalError("checked"));
    else
      return absl::AbortedError("unchecked");
    return absl::OkStatus();
  };
  EXPECT_THAT(run(true), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(run(false), StatusIs(absl::StatusCode::kAborted));
}

absl::StatusOr<std::unique_ptr<int>> Make(bool works) {
  if (works) return std::make_unique<int>(5);
  return absl::ResourceExhaustedError("no room");
}

absl::StatusOr<int> Use(bool works) {
  SW_ASSIGN_OR_RETURN(std::unique_ptr<int> made, Make(works));
  SW_ASSIGN_OR_RETURN(const auto again, Make(works), _ << "again");
  return *made + *again;
}

TEST(AssignOrReturn, MovesTheValueOut) {
  EXPECT_THAT(Use(true), IsOkAndHolds(10));
}

TEST(AssignOrReturn, ReturnsTheError) {
  EXPECT_THAT(Use(false), StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
}

TEST(AssignOrReturn, AddsContext) {
  const auto run = []() -> absl::Status {
    SW_ASSIGN_OR_RETURN(auto made, Make(false), _ << "rank " << 2);
    return made == nullptr ? absl::InternalError("") : absl::OkStatus();
  };
  EXPECT_THAT(run(), StatusIs(absl::StatusCode::kResourceExhausted, "rank 2: no room"));
}

TEST(Annotate, LeavesOkAndEmptyContextAlone) {
  EXPECT_THAT(Annotate(absl::OkStatus(), "context"), IsOk());
  EXPECT_THAT(Annotate(absl::AbortedError("x"), ""), StatusIs(absl::StatusCode::kAborted, "x"));
}

}  // namespace
}  // namespace shardwright
