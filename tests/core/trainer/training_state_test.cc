#include "shardwright/core/trainer/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/core/trainer/run_config.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TrainingState Example() {
  return TrainingState{.seed = 0xfedcba9876543210,
                       .data = "crc32c:0badcafe bytes:9",
                       .samples = 37,
                       .batch_size = 12,
                       .accumulate_steps = 2,
                       .fixed_config = {{"model", "gpt"}, {"model_options", Value::Map{{"n_layer", "4"}}}},
                       .callbacks = {{"model_checkpoint", Value::Map{{"last_saved_step", 5}}}}};
}

std::shared_ptr<const Manifest> ManifestWith(Value::Map extras, std::vector<Value::Map> rank_extras = {}) {
  ManifestData data;
  data.topology.world_size = rank_extras.empty() ? 1 : static_cast<int32_t>(rank_extras.size());
  data.extras = std::move(extras);
  data.rank_extras = std::move(rank_extras);
  return *Manifest::Create(std::move(data));
}

TEST(TrainingStateTest, RoundTrips) {
  EXPECT_THAT(TrainingStateOf(*ManifestWith(ToExtras(Example()))), IsOkAndHolds(Example()));
}

TEST(TrainingStateTest, RandomStatesAreByRank) {
  const auto manifest =
      ManifestWith({}, {ToRankExtras({{"state", 10}}), ToRankExtras({{"state", 11}}), Value::Map{{"trainer", 3}}});
  EXPECT_EQ(RandomStateOf(*manifest, 1), (Value::Map{{"state", 11}}));
  EXPECT_EQ(RandomStateOf(*manifest, 2), std::nullopt);
  EXPECT_EQ(RandomStateOf(*manifest, 3), std::nullopt);
  EXPECT_EQ(RandomStateOf(*manifest, -1), std::nullopt);
}

TEST(TrainingStateTest, ACheckpointOfSomeoneElseIsRefused) {
  EXPECT_THAT(TrainingStateOf(*ManifestWith({})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--init_from")));
  EXPECT_THAT(TrainingStateOf(*ManifestWith({{"trainer", "text"}})), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TrainingStateTest, EveryFieldIsNeededAndHasItsType) {
  const Value::Map extras = ToExtras(Example());
  const Value::Map& fields = *extras.at("trainer").get_if<Value::Map>();
  for (const auto& [key, value] : fields) {
    Value::Map without = fields;
    without.erase(key);
    EXPECT_THAT(TrainingStateOf(*ManifestWith({{"trainer", without}})),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)));
    Value::Map wrong = fields;
    wrong[key] = true;
    EXPECT_THAT(TrainingStateOf(*ManifestWith({{"trainer", wrong}})),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)));
  }
}

TEST(FixedConfigOfTest, IsThatOfTheRunThatWroteTheCheckpoint) {
  EXPECT_THAT(FixedConfigOf(*ManifestWith(ToExtras(Example()))), IsOkAndHolds(Example().fixed_config));
  EXPECT_THAT(FixedConfigOf(*ManifestWith({})), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(CheckContinuesTest, EqualRunsContinue) {
  TrainingState other = Example();
  other.batch_size = 24;
  other.accumulate_steps = 1;
  other.callbacks.clear();
  EXPECT_THAT(CheckContinues(Example(), other), IsOk());
}

TEST(CheckContinuesTest, EveryDifferenceIsNamedWithBothValues) {
  TrainingState other = Example();
  other.seed = 7;
  other.samples = 38;
  other.fixed_config = {{"model", "gpt"},
                        {"model_options", Value::Map{{"n_layer", "6"}, {"bias", Value::List{1, 2.5}}}}};
  EXPECT_THAT(
      CheckContinues(Example(), other),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("seed: saved 18364758544493064720, given 7"),
                     HasSubstr("samples of an epoch: saved 37, given 38"),
                     HasSubstr("model_options.n_layer: saved 4, given 6"),
                     HasSubstr("model_options.bias: saved not set, given [1, 2.5]"), Not(HasSubstr("model:")))));
  EXPECT_THAT(
      CheckContinues(other, Example()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model_options.bias: saved [1, 2.5], given not set")));
}

TEST(AllowedChangesTest, NamesWhatChanges) {
  TrainingState other = Example();
  EXPECT_THAT(AllowedChanges(Example(), other), IsEmpty());
  other.batch_size = 24;
  other.accumulate_steps = 1;
  EXPECT_THAT(AllowedChanges(Example(), other),
              ElementsAre("batch_size was 12, is 24 from here on", "accumulate_steps was 2, is 1 from here on"));
}

}  // namespace
}  // namespace shardwright
