#include "shardwright/callbacks/model_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TrainState AtStep(int64_t step) {
  TrainState state;
  state.progress.step = step;
  return state;
}

// The steps of a run from first to last that the callback wants saved, its end included.
std::vector<int64_t> SavedSteps(ModelCheckpoint& callback, int64_t first, int64_t last) {
  std::vector<int64_t> saved;
  for (int64_t step = first; step <= last; ++step) {
    const bool wished = callback.OnStepEnd(AtStep(step)).save;
    EXPECT_TRUE(!wished || callback.MayActAt(step)) << step;
    if (wished) saved.push_back(step);
  }
  if (callback.OnTrainEnd(AtStep(last)).save) saved.push_back(last);
  return saved;
}

CallbackOptions Every(int64_t steps) {
  CallbackOptions options;
  options.save_every_steps = steps;
  return options;
}

TEST(ModelCheckpointTest, SavesEveryNStepsAndAtTheEnd) {
  ModelCheckpoint callback(Every(3));
  EXPECT_THAT(SavedSteps(callback, 1, 8), ElementsAre(3, 6, 8));
}

TEST(ModelCheckpointTest, TheEndIsNotSavedTwice) {
  ModelCheckpoint callback(Every(4));
  EXPECT_THAT(SavedSteps(callback, 1, 8), ElementsAre(4, 8));
}

TEST(ModelCheckpointTest, WithoutAnIntervalOnlyTheEndIsSaved) {
  ModelCheckpoint callback(Every(0));
  EXPECT_THAT(SavedSteps(callback, 1, 5), ElementsAre(5));
  EXPECT_FALSE(callback.MayActAt(5));
}

TEST(ModelCheckpointTest, ARunWithoutAStepSavesNothing) {
  ModelCheckpoint callback(Every(2));
  EXPECT_FALSE(callback.OnTrainEnd(AtStep(0)).save);
}

TEST(ModelCheckpointTest, AStepThatSomeoneElseSavedIsNotSavedAgain) {
  ModelCheckpoint callback(Every(0));
  callback.OnSaved({.path = "run/step-00000005", .step = 5});
  EXPECT_FALSE(callback.OnTrainEnd(AtStep(5)).save);
}

TEST(ModelCheckpointTest, TheStateOfACheckpointKnowsOfThatCheckpoint) {
  ModelCheckpoint first(Every(2));
  ASSERT_TRUE(first.OnStepEnd(AtStep(2)).save);
  const Value::Map state = first.SaveState();
  ModelCheckpoint resumed(Every(2));
  ASSERT_THAT(resumed.LoadState(state), IsOk());
  EXPECT_FALSE(resumed.OnTrainEnd(AtStep(2)).save);
  EXPECT_THAT(SavedSteps(resumed, 3, 6), ElementsAre(4, 6));
}

TEST(ModelCheckpointTest, LastPointsAtEverySaveUnlessSwitchedOff) {
  CallbackOptions options;
  EXPECT_THAT(ModelCheckpoint(options).StandingLinks(), ElementsAre("last"));
  options.save_last = false;
  EXPECT_THAT(ModelCheckpoint(options).StandingLinks(), IsEmpty());
}

TEST(ModelCheckpointTest, StateOfAnotherTypeIsRefused) {
  ModelCheckpoint callback(Every(2));
  EXPECT_THAT(callback.LoadState({{"last_saved_step", "two"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("last_saved_step")));
  EXPECT_THAT(callback.LoadState({}), IsOk());
}

}  // namespace
}  // namespace shardwright
