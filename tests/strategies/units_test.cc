// Models of every shape that units can have train alike under every strategy, and zero3 holds no more than it says.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/module/torch_module.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/conformance/strategy/strategy_world.h"
#include "shardwright/tests/conformance/strategy/toy_module.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kWidth = 6;

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(at::Tensor shared = {}) {
    weight = register_parameter("weight", shared.defined() ? shared : at::randn({kWidth, kWidth}) / 3);
    bias = register_parameter("bias", at::zeros({kWidth}));
  }
  at::Tensor forward(const at::Tensor& x) { return x + at::tanh(at::linear(x, weight, bias)); }
  at::Tensor weight, bias;
};
TORCH_MODULE(Layer);

// A unit with another inside, and parameters of its own before and after it.
struct OuterImpl : torch::nn::Module {
  explicit OuterImpl(Units& units) {
    before = register_module("before", Layer());
    inner = units.Wrap<Layer>(register_module("inner", Layer()));
    after = register_module("after", Layer());
  }
  at::Tensor forward(const at::Tensor& x) { return after->forward(inner(before->forward(x))); }
  Layer before{nullptr}, after{nullptr};
  Unit<Layer> inner;
};
TORCH_MODULE(Outer);

// Returns a loss of its own beside its output.
struct TwoOutputsImpl : torch::nn::Module {
  TwoOutputsImpl() { layer = register_module("layer", Layer()); }
  std::vector<at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor out = layer->forward(x);
    return {out, (out * out).mean()};
  }
  Layer layer{nullptr};
};
TORCH_MODULE(TwoOutputs);

enum class Kind {
  kChain,
  kNested,
  kCalledTwice,
  kTiedAcrossUnits,
  kFrozenUnit,
  kSometimesSkipped,
  kTwoOutputs,
  kNoUnits
};
constexpr Kind kKinds[] = {Kind::kChain,      Kind::kNested,           Kind::kCalledTwice, Kind::kTiedAcrossUnits,
                           Kind::kFrozenUnit, Kind::kSometimesSkipped, Kind::kTwoOutputs,  Kind::kNoUnits};
constexpr const char* kKindNames[] = {"Chain",      "Nested",           "CalledTwice", "TiedAcrossUnits",
                                      "FrozenUnit", "SometimesSkipped", "TwoOutputs",  "NoUnits"};

class ShapedModel : public TorchModule {
 public:
  explicit ShapedModel(Kind kind) : kind_(kind) {}

  void ConfigureShardedModel(Units& units) override {
    embedding_ = register_parameter("embedding", at::randn({kToyVocabulary, kWidth}));
    if (kind_ == Kind::kNested) outer_ = units.Wrap<Outer>(register_module("outer", Outer(units)));
    if (kind_ == Kind::kTwoOutputs) two_outputs_ = units.Wrap<TwoOutputs>(register_module("two_outputs", TwoOutputs()));
    if (kind_ == Kind::kNoUnits) plain_ = register_module("plain", Layer());
    AddLayers(units);
    head_ = register_parameter("head", at::randn({kToyVocabulary, kWidth}));
  }

  OptimizerSpec ConfigureOptimizers() override {
    ParameterGroup group{.parameters = {}, .hyperparameters = {.learning_rate = 0.01, .weight_decay = 0.1}};
    for (const NamedTorchTensor& named : NamedTensors(*this)) {
      if (named.meta.trainable && named.alias_of.empty()) group.parameters.push_back(named.meta.name);
    }
    return {.groups = {group}, .schedule = {}};
  }

  at::Tensor TrainingStep(const Batch& batch) override {
    const at::Tensor tokens =
        at::from_blob(const_cast<int32_t*>(batch.tokens.data()), {batch.samples, batch.sample_tokens}, at::kInt)
            .to(at::kLong);
    at::Tensor x = at::embedding(embedding_, tokens.slice(1, 0, -1)), more = at::zeros({});
    if (kind_ == Kind::kNested) x = outer_(x);
    if (kind_ == Kind::kNoUnits) x = plain_->forward(x);
    if (kind_ == Kind::kTwoOutputs) {
      const std::vector<at::Tensor> out = two_outputs_(x);
      x = out[0];
      more = out[1] * 0.1;
    }
    const bool skips = kind_ == Kind::kSometimesSkipped && passes_++ / 2 % 2 == 0;  // every other step
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (skips && i == 1) continue;
      x = layers_[i](x);
    }
    if (kind_ == Kind::kCalledTwice) x = layers_[0](x);
    return at::cross_entropy_loss(at::linear(x, head_).flatten(0, 1).to(at::kFloat), tokens.slice(1, 1).flatten()) +
           more;
  }

  int64_t sample_tokens() const override { return kToyTokens; }
  std::string Describe() const override { return "shaped"; }

 private:
  void AddLayers(Units& units) {
    at::Tensor first_weight;
    for (int i = 0; i < 3 && kind_ != Kind::kNoUnits; ++i) {
      const bool tied = kind_ == Kind::kTiedAcrossUnits && i == 2;
      Layer layer = tied ? Layer(first_weight) : Layer();
      if (i == 0) first_weight = layer->weight;
      if (kind_ == Kind::kFrozenUnit && i == 1) {
        layer->weight.requires_grad_(false);
        layer->bias.requires_grad_(false);
      }
      layers_.push_back(units.Wrap<Layer>(register_module(absl::StrCat("layer", i), std::move(layer))));
    }
  }

  const Kind kind_;
  at::Tensor embedding_, head_;
  std::vector<Unit<Layer>> layers_;
  Unit<Outer> outer_;
  Unit<TwoOutputs> two_outputs_;
  Layer plain_{nullptr};
  int64_t passes_ = 0;
};

constexpr int64_t kSamplesPerStep = 12;

// Mean losses by step; two micro-batches a step.
std::vector<double> LossesOf(const WorldCase& world, Kind kind) {
  constexpr int64_t kSteps = 8;
  const auto storage = MakeMemoryStorage();
  std::vector<std::vector<double>> losses(world.ranks, std::vector<double>(kSteps));
  EXPECT_THAT(
      RunWorld(*storage, world,
               [&](Strategy& strategy, int32_t rank) -> absl::Status {
                 SW_RETURN_IF_ERROR(strategy.Setup(std::make_unique<ShapedModel>(kind)));
                 const int64_t samples = kSamplesPerStep / world.ranks / 2;
                 for (int64_t step = 0; step < kSteps; ++step) {
                   const int64_t first = step * kSamplesPerStep + rank * 2 * samples;
                   SW_ASSIGN_OR_RETURN(
                       const StepResult result,
                       strategy.TrainStep({ToyBatch(first, samples), ToyBatch(first + samples, samples)}, step));
                   losses[rank][step] = result.loss;
                 }
                 return strategy.Save({.path = "end"}).status();
               }),
      Each(IsOk()));
  std::vector<double> means(kSteps, 0);
  for (const std::vector<double>& of_rank : losses) {
    for (int64_t step = 0; step < kSteps; ++step) means[step] += of_rank[step] / world.ranks;
  }
  return means;
}

class UnitsOfEveryShapeTest : public ::testing::TestWithParam<std::tuple<WorldCase, Kind>> {};

TEST_P(UnitsOfEveryShapeTest, FollowSingleDevice) {
  auto [world, kind] = GetParam();
  const std::vector<double> reference = LossesOf({.strategy = "single_device"}, kind);
  ASSERT_LT(reference.back(), 0.95 * reference.front()) << "the reference learns";
  world.options.gradient_bucket_bytes = 200;
  world.options.clip_gradient_norm = 100;
  const std::vector<double> losses = LossesOf(world, kind);
  world.options.recompute_activations = true;
  const std::vector<double> recomputed = LossesOf(world, kind);
  world.options.compute_dtype = DType::kBFloat16;
  const std::vector<double> bfloat16 = LossesOf(world, kind);
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step], reference[step], 1e-4 * reference[step]) << "step " << step;
    EXPECT_NEAR(recomputed[step], reference[step], 1e-4 * reference[step]) << "step " << step << ", recomputed";
    EXPECT_NEAR(bfloat16[step], reference[step], 4e-2 * reference[step]) << "step " << step << ", bfloat16";
  }
}

std::vector<WorldCase> SmallWorlds() {
  std::vector<WorldCase> worlds;
  for (const WorldCase& world : AllWorlds()) {
    if (world.ranks <= 3) worlds.push_back(world);
  }
  return worlds;
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, UnitsOfEveryShapeTest,
                         ::testing::Combine(::testing::ValuesIn(SmallWorlds()), ::testing::ValuesIn(kKinds)),
                         [](const auto& info) {
                           return absl::StrCat(CaseName(std::get<0>(info.param)), "_",
                                               kKindNames[static_cast<int>(std::get<1>(info.param))]);
                         });

// Looks at what memory its parameters have while its units run.
class WatchedModel : public TorchModule {
 public:
  struct WatchedImpl : torch::nn::Module {
    WatchedImpl(WatchedModel& model, size_t index) : model(model), index(index) {
      weight = register_parameter("weight", at::randn({8, 8}));
    }
    at::Tensor forward(const at::Tensor& x) {
      model.Look(index);
      return at::linear(x, weight);
    }
    WatchedModel& model;
    size_t index;
    at::Tensor weight;
  };
  TORCH_MODULE(Watched);

  void ConfigureShardedModel(Units& units) override {
    root_ = register_parameter("root", at::randn({8, 8}));
    for (size_t i = 0; i < 4; ++i) {
      Watched layer(*this, i);
      weights_.push_back(layer->weight);
      units_.push_back(units.Wrap<Watched>(register_module(absl::StrCat("layer", i), layer)));
      // Sharded at birth: earlier units hold nothing while later ones are built.
      whole_after_birth.push_back(WholeWeights());
    }
  }
  OptimizerSpec ConfigureOptimizers() override {
    ParameterGroup group;
    for (const NamedTorchTensor& named : NamedTensors(*this)) group.parameters.push_back(named.meta.name);
    return {.groups = {group}, .schedule = {}};
  }
  at::Tensor TrainingStep(const Batch& batch) override {
    whole_in_forward.clear();
    at::Tensor x = at::linear(at::zeros({1, 8}) + 1, root_);
    for (Unit<Watched>& unit : units_) x = unit(x);
    return x.pow(2).mean();
  }
  int64_t sample_tokens() const override { return kToyTokens; }
  std::string Describe() const override { return "watched"; }

  void Look(size_t index) { whole_in_forward.push_back(WholeWeights()); }
  // Numbers of the units whose weights have memory.
  std::vector<size_t> WholeWeights() const {
    std::vector<size_t> whole;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i].storage().nbytes() > 0) whole.push_back(i);
    }
    return whole;
  }

  std::vector<std::vector<size_t>> whole_after_birth, whole_in_forward;

 private:
  at::Tensor root_;
  std::vector<at::Tensor> weights_;
  std::vector<Unit<Watched>> units_;
};

TEST(Zero3Test, OnlyTheUnitThatComputesIsWhole) {
  const auto storage = MakeMemoryStorage();
  EXPECT_THAT(RunWorld(*storage, {.strategy = "zero3", .ranks = 2},
                       [](Strategy& strategy, int32_t rank) -> absl::Status {
                         auto owned = std::make_unique<WatchedModel>();
                         WatchedModel& model = *owned;
                         SW_RETURN_IF_ERROR(strategy.Setup(std::move(owned)));
                         const std::vector<std::vector<size_t>> none(4), each = {{0}, {1}, {2}, {3}};
                         EXPECT_EQ(model.whole_after_birth, none);
                         EXPECT_EQ(strategy.ResidentBytes(), 5 * (3 * 4 * 8 * 4 + 4));  // rows, their moments, step
                         for (int64_t step = 0; step < 3; ++step) {
                           SW_RETURN_IF_ERROR(strategy.TrainStep({ToyBatch(0, 1)}, step));
                           EXPECT_EQ(model.whole_in_forward, each);
                           EXPECT_EQ(model.WholeWeights(), std::vector<size_t>());
                         }
                         SW_RETURN_IF_ERROR(strategy.ValidationStep(ToyBatch(0, 1)));
                         EXPECT_EQ(model.whole_in_forward, each);
                         EXPECT_EQ(model.WholeWeights(), std::vector<size_t>());
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

// Two parameters in one memory could not be freed one by one.
class ViewModel : public ShapedModel {
 public:
  ViewModel() : ShapedModel(Kind::kChain) {}
  void ConfigureShardedModel(Units& units) override {
    const at::Tensor both = at::randn({4, 2});
    register_parameter("first", both.narrow(0, 0, 2));
    register_parameter("second", both.narrow(0, 2, 2));
  }
};

TEST(Zero3Test, ParametersThatShareMemoryAreRefused) {
  const auto storage = MakeMemoryStorage();
  EXPECT_THAT(
      RunWorld(*storage, {.strategy = "zero3", .ranks = 2},
               [](Strategy& strategy, int32_t rank) { return strategy.Setup(std::make_unique<ViewModel>()); }),
      Each(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("first: a parameter of shape [2, 2] shares"))));
}

}  // namespace
}  // namespace shardwright::testing
