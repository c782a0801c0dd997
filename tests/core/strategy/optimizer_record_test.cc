#include "shardwright/core/strategy/optimizer_record.h"

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
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

OptimizerSpec TwoGroups() {
  OptimizerSpec spec;
  spec.groups = {{.parameters = {"a", "b"}, .hyperparameters = {.learning_rate = 0.5, .weight_decay = 0.25}},
                 {.parameters = {"c"}, .hyperparameters = {.learning_rate = 0.5}}};
  spec.schedule = {.kind = ScheduleKind::kCosine, .warmup_steps = 3, .total_steps = 90};
  return spec;
}

TEST(OptimizerRecordTest, AnUnchangedOptimizerGivesNoNotes) {
  EXPECT_THAT(CompareOptimizer(RecordOptimizer(TwoGroups()), TwoGroups()), IsOkAndHolds(IsEmpty()));
}

TEST(OptimizerRecordTest, ListsNamesAndHyperparameters) {
  const Value::Map record = RecordOptimizer(TwoGroups());
  EXPECT_EQ(record.at("kind"), Value("adamw"));
  const auto& groups = *record.at("groups").get_if<Value::List>();
  ASSERT_EQ(groups.size(), 2u);
  const auto& first = *groups[0].get_if<Value::Map>();
  EXPECT_EQ(first.at("parameters"), Value(Value::List{"a", "b"}));
  EXPECT_EQ(first.at("weight_decay"), Value(0.25));
  EXPECT_EQ(first.at("nesterov"), Value(false));
  EXPECT_EQ(record.at("schedule").get_if<Value::Map>()->at("total_steps"), Value(90));
}

TEST(OptimizerRecordTest, AnotherKindIsRefusedNamingBoth) {
  OptimizerSpec sgd = TwoGroups();
  sgd.kind = OptimizerKind::kSgd;
  EXPECT_THAT(
      CompareOptimizer(RecordOptimizer(TwoGroups()), sgd),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("adamw"), HasSubstr("sgd"), HasSubstr("weights"))));
}

TEST(OptimizerRecordTest, ChangesAreCountedByParameterAndFollowNames) {
  OptimizerSpec spec = TwoGroups();
  // "c" moves into the first group; "b" leaves it.
  spec.groups[0].parameters = {"c", "a"};
  spec.groups[1].parameters = {"b"};
  spec.groups[0].hyperparameters.learning_rate = 0.125;
  spec.schedule.total_steps = 200;
  EXPECT_THAT(CompareOptimizer(RecordOptimizer(TwoGroups()), spec),
              IsOkAndHolds(UnorderedElementsAre("optimizer: learning_rate was 0.5, is 0.125 (2 parameters)",
                                                "optimizer: weight_decay was 0.25, is 0 (1 parameter)",
                                                "optimizer: weight_decay was 0, is 0.25 (1 parameter)",
                                                "learning rate schedule: total_steps was 90, is 200")));
}

TEST(OptimizerRecordTest, ParametersOfOneSideAloneGiveNoNotes) {
  OptimizerSpec spec = TwoGroups();
  spec.groups[0].parameters = {"new"};
  EXPECT_THAT(CompareOptimizer(RecordOptimizer(TwoGroups()), spec), IsOkAndHolds(IsEmpty()));
}

TEST(OptimizerRecordTest, StrangeRecordsAreNotTrusted) {
  EXPECT_THAT(CompareOptimizer({}, TwoGroups()), IsOkAndHolds(IsEmpty()));
  const Value::Map strange = {
      {"kind", 3}, {"groups", Value::List{1, Value::Map{{"parameters", "a"}}}}, {"schedule", "cosine"}};
  EXPECT_THAT(CompareOptimizer(strange, TwoGroups()), IsOkAndHolds(IsEmpty()));
  const Value::Map mistyped = {
      {"groups", Value::List{Value::Map{{"parameters", Value::List{"a", 2}}, {"learning_rate", Value::List{}}}}}};
  EXPECT_THAT(CompareOptimizer(mistyped, TwoGroups()),
              IsOkAndHolds(ElementsAre("optimizer: learning_rate was unset, is 0.5 (1 parameter)")));
}

}  // namespace
}  // namespace shardwright
