#include "shardwright/core/trainer/trainer_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TrainerOptions Good() {
  TrainerOptions options;
  options.run_directory = "runs/demo";
  options.batch_size = 12;
  options.accumulate_steps = 2;
  return options;
}

TEST(ValidateTrainerOptionsTest, GoodOnesPass) {
  EXPECT_THAT(ValidateTrainerOptions(Good(), 1), IsOk());
  EXPECT_THAT(ValidateTrainerOptions(Good(), 3), IsOk());
}

TEST(ValidateTrainerOptionsTest, BadNumbersAreNamed) {
  TrainerOptions options = Good();
  options.max_steps = -1;
  EXPECT_THAT(ValidateTrainerOptions(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("max_steps"), HasSubstr("-1"))));
  options = Good();
  options.batch_size = 0;
  EXPECT_THAT(ValidateTrainerOptions(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch_size")));
  options = Good();
  options.accumulate_steps = 0;
  EXPECT_THAT(ValidateTrainerOptions(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("accumulate_steps")));
  options = Good();
  options.run_directory.clear();
  EXPECT_THAT(ValidateTrainerOptions(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run_directory")));
}

TEST(ValidateTrainerOptionsTest, ABatchThatCannotBeDividedNamesAllThree) {
  EXPECT_THAT(
      ValidateTrainerOptions(Good(), 4),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("batch_size 12"), HasSubstr("world size 4"),
                                                         HasSubstr("accumulate_steps 2"), HasSubstr("multiple of 8"))));
}

TEST(ValidateTrainerOptionsTest, AProductThatOverflowsIsNoDivisor) {
  TrainerOptions options = Good();
  options.accumulate_steps = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ValidateTrainerOptions(options, 8), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ValidateTrainerOptionsTest, ContinuingAndInitialisingAreTwoIntentions) {
  TrainerOptions options = Good();
  options.init_from = "base";
  for (const char* resume : {"auto", "none"}) {
    options.resume = resume;
    EXPECT_THAT(ValidateTrainerOptions(options, 1), IsOk()) << resume;
  }
  for (const char* resume : {"100", "runs/demo/step-00000100"}) {
    options.resume = resume;
    EXPECT_THAT(ValidateTrainerOptions(options, 1),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(resume), HasSubstr("base"))));
  }
  options.resume = "";
  EXPECT_THAT(ValidateTrainerOptions(options, 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resume")));
}

}  // namespace
}  // namespace shardwright
