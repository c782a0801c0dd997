#include "shardwright/core/module/optimizer_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

OptimizerSpec SpecOf(std::vector<ParameterGroup> groups, OptimizerKind kind = OptimizerKind::kAdamW) {
  return {.kind = kind, .groups = std::move(groups), .schedule = {}};
}

TEST(OptimizerKindTest, NamesParseBack) {
  for (OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdam, OptimizerKind::kSgd}) {
    EXPECT_THAT(ParseOptimizerKind(OptimizerKindName(kind)), IsOkAndHolds(kind));
  }
  for (ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    EXPECT_THAT(ParseScheduleKind(ScheduleKindName(kind)), IsOkAndHolds(kind));
  }
}

TEST(OptimizerKindTest, UnknownNamesAreAnsweredWithTheNearest) {
  EXPECT_THAT(ParseOptimizerKind("adamv"),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("\"adamv\""), HasSubstr("\"adam"))));
  EXPECT_THAT(ParseScheduleKind("cosin"), StatusIs(kInvalidArgument, HasSubstr("\"cosine\"")));
  EXPECT_THAT(ParseScheduleKind(""), StatusIs(kInvalidArgument, HasSubstr("known: constant, linear, cosine")));
}

TEST(ScheduleFactorTest, WarmsUpLinearlyAndNeverFromZero) {
  const LearningRateSchedule schedule{.kind = ScheduleKind::kConstant, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 0), 0.2);
  EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 3), 0.8);
  EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 4), 1.0);
  EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 1000), 1.0);
}

TEST(ScheduleFactorTest, DecaysToTheFinalFactorAndStaysThere) {
  for (ScheduleKind kind : {ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    const LearningRateSchedule schedule{.kind = kind, .warmup_steps = 10, .total_steps = 110, .final_factor = 0.1};
    EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 10), 1.0);
    EXPECT_NEAR(ScheduleFactor(schedule, 60), 0.55, 1e-12);  // half-way
    EXPECT_NEAR(ScheduleFactor(schedule, 110), 0.1, 1e-12);
    EXPECT_NEAR(ScheduleFactor(schedule, 5000), 0.1, 1e-12);
    for (int64_t step = 10; step < 110; ++step)
      EXPECT_GT(ScheduleFactor(schedule, step), ScheduleFactor(schedule, step + 1));
  }
}

TEST(ScheduleFactorTest, CosineIsFlatAtItsStart) {
  LearningRateSchedule schedule{.kind = ScheduleKind::kCosine, .total_steps = 100, .final_factor = 0};
  const double cosine = ScheduleFactor(schedule, 10);
  schedule.kind = ScheduleKind::kLinear;
  EXPECT_GT(cosine, ScheduleFactor(schedule, 10));
}

TEST(ScheduleFactorTest, WithoutStepsToDecayOverStaysAtOne) {
  const LearningRateSchedule schedule{.kind = ScheduleKind::kCosine, .warmup_steps = 5, .total_steps = 5};
  EXPECT_DOUBLE_EQ(ScheduleFactor(schedule, 5), 1.0);
  EXPECT_DOUBLE_EQ(ScheduleFactor({.kind = ScheduleKind::kLinear}, 7), 1.0);
}

TEST(OptimizerSlotsTest, FollowKindAndMomentum) {
  EXPECT_THAT(OptimizerSlots(SpecOf({}), {}), ElementsAre("exp_avg", "exp_avg_sq", "step"));
  EXPECT_THAT(OptimizerSlots(SpecOf({}, OptimizerKind::kSgd), {.momentum = 0.9}), ElementsAre("momentum_buffer"));
  EXPECT_THAT(OptimizerSlots(SpecOf({}, OptimizerKind::kSgd), {}), IsEmpty());
}

TEST(OptimizerTensorMetaTest, IsShapedLikeTheParameterButForTheCount) {
  TensorMeta parameter{.name = "h.0.weight", .dtype = DType::kBFloat16, .shape = {3, 5}};
  const TensorMeta moment = OptimizerTensorMeta(parameter, "exp_avg", 2);
  EXPECT_EQ(moment.name, "optimizer.2.state.h.0.weight.exp_avg");
  EXPECT_EQ(moment.role, Role::kOptimizer);
  EXPECT_EQ(moment.optimizer, (OptimizerField{.index = 2, .parameter = "h.0.weight", .slot = "exp_avg"}));
  EXPECT_EQ(moment.dtype, DType::kBFloat16);
  EXPECT_THAT(moment.shape, ElementsAre(3, 5));
  const TensorMeta count = OptimizerTensorMeta(parameter, "step");
  EXPECT_EQ(count.dtype, DType::kFloat32);
  EXPECT_THAT(count.shape, IsEmpty());
  EXPECT_EQ(count.bytes(), 4);
}

TEST(ValidateOptimizerSpecTest, AcceptsEachParameterInOneGroup) {
  EXPECT_THAT(ValidateOptimizerSpec(SpecOf({{.parameters = {"a"}}, {.parameters = {"c", "b"}}}), {"a", "b", "c"}),
              IsOk());
  EXPECT_THAT(ValidateOptimizerSpec(SpecOf({}), {}), IsOk());
}

TEST(ValidateOptimizerSpecTest, NamesTheParameterThatIsMissingTwiceOrUnknown) {
  EXPECT_THAT(ValidateOptimizerSpec(SpecOf({{.parameters = {"a"}}}), {"a", "b"}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("\"b\""), HasSubstr("no optimizer group"))));
  EXPECT_THAT(ValidateOptimizerSpec(SpecOf({{.parameters = {"a"}}, {.parameters = {"a"}}}), {"a"}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("\"a\""), HasSubstr("two optimizer groups"))));
  EXPECT_THAT(ValidateOptimizerSpec(SpecOf({{.parameters = {"layer.wieght"}}}), {"layer.weight"}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("layer.wieght"), HasSubstr("did you mean \"layer.weight\""))));
}

TEST(ValidateOptimizerSpecTest, RefusesHyperparametersOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto check = [](OptimizerHyperparameters h, OptimizerKind kind) {
    return ValidateOptimizerSpec(SpecOf({{.parameters = {"a"}, .hyperparameters = h}}, kind), {"a"});
  };
  EXPECT_THAT(check({.learning_rate = -1}, OptimizerKind::kAdamW),
              StatusIs(kInvalidArgument, HasSubstr("learning_rate is -1")));
  EXPECT_THAT(check({.learning_rate = nan}, OptimizerKind::kSgd),
              StatusIs(kInvalidArgument, HasSubstr("learning_rate")));
  EXPECT_THAT(check({.beta1 = 1}, OptimizerKind::kAdam), StatusIs(kInvalidArgument, HasSubstr("beta1")));
  EXPECT_THAT(check({.beta2 = nan}, OptimizerKind::kAdamW), StatusIs(kInvalidArgument, HasSubstr("beta2")));
  EXPECT_THAT(check({.epsilon = 0}, OptimizerKind::kAdamW), StatusIs(kInvalidArgument, HasSubstr("epsilon")));
  EXPECT_THAT(check({.nesterov = true}, OptimizerKind::kSgd), StatusIs(kInvalidArgument, HasSubstr("momentum")));
  EXPECT_THAT(check({.momentum = 0.9, .nesterov = true}, OptimizerKind::kSgd), IsOk());
}

TEST(ValidateOptimizerSpecTest, RefusesNegativeSteps) {
  OptimizerSpec spec = SpecOf({});
  spec.schedule.warmup_steps = -1;
  EXPECT_THAT(ValidateOptimizerSpec(spec, {}), StatusIs(kInvalidArgument, HasSubstr("warmup_steps is -1")));
}

}  // namespace
}  // namespace shardwright
