#include "shardwright/core/strategy/fused_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SteppedParameter Parameter(std::string name, at::Tensor tensor) {
  TensorMeta meta{.name = std::move(name), .dtype = DType::kFloat32, .shape = tensor.sizes().vec()};
  return {.meta = meta, .box = Box::Whole(meta.shape), .tensor = std::move(tensor)};
}

at::Tensor Ones(int64_t elements) {
  return at::full({elements}, 1.0f, at::TensorOptions(at::kFloat));
}

OptimizerSpec SpecOf(OptimizerKind kind, std::vector<std::string> parameters,
                     OptimizerHyperparameters hyperparameters) {
  OptimizerSpec spec{.kind = kind, .groups = {}, .schedule = {}};
  spec.groups.push_back({.parameters = std::move(parameters), .hyperparameters = hyperparameters});
  return spec;
}

std::vector<std::string> NamesOf(const LocalState& state) {
  std::vector<std::string> names;
  for (const LocalTensor& tensor : state) names.push_back(tensor.meta.name);
  return names;
}

// One element's value after `steps` steps with gradients 0.5, -1, 0.5, -1, ... by the textbook, in double.
double Reference(OptimizerKind kind, const OptimizerHyperparameters& h, int steps) {
  double p = 1, m = 0, v = 0;
  for (int t = 1; t <= steps; ++t) {
    double g = t % 2 == 1 ? 0.5 : -1.0;
    if (kind == OptimizerKind::kAdamW) {
      p -= h.learning_rate * h.weight_decay * p;
    } else {
      g += h.weight_decay * p;
    }
    if (kind == OptimizerKind::kSgd) {
      m = h.momentum * m + g;
      p -= h.learning_rate * (h.nesterov ? g + h.momentum * m : m);
      continue;
    }
    m = h.beta1 * m + (1 - h.beta1) * g;
    v = h.beta2 * v + (1 - h.beta2) * g * g;
    p -= h.learning_rate * (m / (1 - std::pow(h.beta1, t))) / (std::sqrt(v / (1 - std::pow(h.beta2, t))) + h.epsilon);
  }
  return p;
}

TEST(FusedOptimizerTest, FollowsTheTextbook) {
  const OptimizerHyperparameters h{.learning_rate = 0.1, .weight_decay = 0.2, .momentum = 0.8};
  OptimizerHyperparameters nesterov = h, plain = h;
  nesterov.nesterov = true;
  plain.momentum = 0;
  const std::vector<std::pair<OptimizerKind, OptimizerHyperparameters>> cases = {{OptimizerKind::kAdamW, h},
                                                                                 {OptimizerKind::kAdam, h},
                                                                                 {OptimizerKind::kSgd, h},
                                                                                 {OptimizerKind::kSgd, nesterov},
                                                                                 {OptimizerKind::kSgd, plain}};
  for (const auto& [kind, hyperparameters] : cases) {
    const SteppedParameter parameter = Parameter("a", Ones(37));
    SW_ASSERT_OK_AND_ASSIGN(auto optimizer, FusedOptimizer::Create(SpecOf(kind, {"a"}, hyperparameters), {parameter}));
    for (int step = 0; step < 5; ++step) {
      parameter.tensor.mutable_grad() = at::full({37}, step % 2 == 0 ? 0.5 : -1.0);
      ASSERT_THAT(optimizer->Step(step), IsOk());
    }
    const double want = Reference(kind, hyperparameters, 5);
    EXPECT_NEAR(parameter.tensor[36].item<double>(), want, 1e-5) << OptimizerKindName(kind);
    EXPECT_NEAR(parameter.tensor[0].item<double>(), want, 1e-5) << OptimizerKindName(kind);
  }
}

TEST(FusedOptimizerTest, GroupsAndScheduleSetTheRate) {
  OptimizerSpec spec = SpecOf(OptimizerKind::kSgd, {"a"}, {.learning_rate = 1});
  spec.groups.push_back({.parameters = {"b"}, .hyperparameters = {.learning_rate = 0.5}});
  spec.schedule = {.kind = ScheduleKind::kLinear, .warmup_steps = 1, .total_steps = 3, .final_factor = 0};
  const SteppedParameter a = Parameter("a", at::zeros({3})), b = Parameter("b", at::zeros({3}));
  SW_ASSERT_OK_AND_ASSIGN(auto optimizer, FusedOptimizer::Create(spec, {b, a}));
  a.tensor.mutable_grad() = Ones(3);
  b.tensor.mutable_grad() = Ones(3);
  double sum = 0;
  for (const double factor : {0.5, 1.0, 0.5}) {
    const int64_t step = sum == 0 ? 0 : (sum == 0.5 ? 1 : 2);
    EXPECT_DOUBLE_EQ(optimizer->LearningRate(step), factor);
    ASSERT_THAT(optimizer->Step(step), IsOk());
    sum += factor;
    EXPECT_FLOAT_EQ(a.tensor[0].item<float>(), -sum);
    EXPECT_FLOAT_EQ(b.tensor[0].item<float>(), -sum / 2);
  }
}

TEST(FusedOptimizerTest, AllocatesStateEagerlyUnderNames) {
  SW_ASSERT_OK_AND_ASSIGN(auto adam, FusedOptimizer::Create(SpecOf(OptimizerKind::kAdam, {"b", "a"}, {}),
                                                            {Parameter("a", Ones(2)), Parameter("b", Ones(3))}));
  EXPECT_THAT(NamesOf(adam->State()),
              ElementsAre("optimizer.0.state.a.exp_avg", "optimizer.0.state.a.exp_avg_sq", "optimizer.0.state.a.step",
                          "optimizer.0.state.b.exp_avg", "optimizer.0.state.b.exp_avg_sq", "optimizer.0.state.b.step"));
  for (const LocalTensor& tensor : adam->State()) {
    EXPECT_NE(tensor.data, nullptr);
    EXPECT_EQ(tensor.meta.role, Role::kOptimizer);
  }
  SW_ASSERT_OK_AND_ASSIGN(auto sgd,
                          FusedOptimizer::Create(SpecOf(OptimizerKind::kSgd, {"a"}, {}), {Parameter("a", Ones(2))}));
  EXPECT_THAT(sgd->State(), IsEmpty());
}

TEST(FusedOptimizerTest, StateContinuesWhereItWasCopiedFrom) {
  const OptimizerSpec spec = SpecOf(OptimizerKind::kAdamW, {"a"}, {.learning_rate = 0.1});
  const SteppedParameter a = Parameter("a", Ones(5));
  SW_ASSERT_OK_AND_ASSIGN(auto first, FusedOptimizer::Create(spec, {a}));
  a.tensor.mutable_grad() = Ones(5) * 0.3;
  for (int step = 0; step < 3; ++step) ASSERT_THAT(first->Step(step), IsOk());

  const SteppedParameter b = Parameter("a", a.tensor.clone());
  b.tensor.mutable_grad() = a.tensor.grad();
  SW_ASSERT_OK_AND_ASSIGN(auto second, FusedOptimizer::Create(spec, {b}));
  const LocalState from = first->State(), to = second->State();
  for (size_t i = 0; i < from.size(); ++i) std::copy(from[i].data, from[i].data + from[i].bytes(), to[i].data);
  ASSERT_THAT(first->Step(3), IsOk());
  ASSERT_THAT(second->Step(3), IsOk());
  EXPECT_TRUE(a.tensor.equal(b.tensor));

  second->Reset();
  for (const LocalTensor& tensor : second->State()) {
    for (int64_t i = 0; i < tensor.bytes(); ++i) EXPECT_EQ(tensor.data[i], 0);
  }
}

TEST(FusedOptimizerTest, AnUndefinedGradientIsZero) {
  const SteppedParameter with = Parameter("a", Ones(4)), without = Parameter("b", Ones(4));
  SW_ASSERT_OK_AND_ASSIGN(
      auto optimizer,
      FusedOptimizer::Create(SpecOf(OptimizerKind::kAdamW, {"a", "b"}, {.weight_decay = 0.5}), {with, without}));
  with.tensor.mutable_grad() = at::zeros({4});
  ASSERT_THAT(optimizer->Step(0), IsOk());
  EXPECT_TRUE(with.tensor.equal(without.tensor));
  EXPECT_LT(without.tensor[0].item<float>(), 1) << "weight decay acts";
}

TEST(FusedOptimizerTest, ShardsAreSteppedLikeTheWhole) {
  const OptimizerSpec spec = SpecOf(OptimizerKind::kAdamW, {"a"}, {.learning_rate = 0.1});
  const SteppedParameter whole = Parameter("a", Ones(6));
  SteppedParameter shard = Parameter("a", Ones(6)), nothing = shard;
  shard.box = Box::Rows({6}, 2, 5);
  shard.tensor = at::full({3}, 1.0f);
  nothing.box = Box::Rows({6}, 6, 6);
  nothing.tensor = at::zeros({0});
  std::vector<std::unique_ptr<FusedOptimizer>> optimizers;
  for (const SteppedParameter& parameter : {whole, shard, nothing}) {
    parameter.tensor.mutable_grad() = parameter.tensor * 0.25;
    SW_ASSERT_OK_AND_ASSIGN(auto optimizer, FusedOptimizer::Create(spec, {parameter}));
    ASSERT_THAT(optimizer->Step(0), IsOk());
    optimizers.push_back(std::move(optimizer));
  }
  EXPECT_TRUE(whole.tensor.slice(0, 2, 5).equal(shard.tensor));
  const LocalState state = optimizers[2]->State();
  EXPECT_TRUE(state[0].box.empty());
  EXPECT_EQ(state[0].data, nullptr);
  EXPECT_EQ(*reinterpret_cast<const float*>(state[2].data), 1) << "the count is whole on every rank";
}

TEST(FusedOptimizerTest, DtypesOfAGroupAreSteppedApart) {
  SteppedParameter a = Parameter("a", Ones(3)), b = Parameter("b", Ones(3).to(at::kDouble));
  b.meta.dtype = DType::kFloat64;
  SW_ASSERT_OK_AND_ASSIGN(auto optimizer,
                          FusedOptimizer::Create(SpecOf(OptimizerKind::kAdamW, {"a", "b"}, {}), {a, b}));
  a.tensor.mutable_grad() = Ones(3);
  b.tensor.mutable_grad() = Ones(3).to(at::kDouble);
  ASSERT_THAT(optimizer->Step(0), IsOk());
  EXPECT_NEAR(a.tensor[0].item<double>(), b.tensor[0].item<double>(), 1e-6);
  EXPECT_LT(b.tensor[0].item<double>(), 1);
}

TEST(FusedOptimizerTest, RefusesSpecsThatDoNotFit) {
  EXPECT_THAT(FusedOptimizer::Create(SpecOf(OptimizerKind::kAdamW, {"b"}, {}), {Parameter("a", Ones(2))}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"b\"")));
  SteppedParameter counts = Parameter("a", at::zeros({2}, at::kLong));
  counts.meta.dtype = DType::kInt64;
  EXPECT_THAT(FusedOptimizer::Create(SpecOf(OptimizerKind::kAdamW, {"a"}, {}), {counts}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("I64")));
}

}  // namespace
}  // namespace shardwright
