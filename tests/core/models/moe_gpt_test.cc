#include "shardwright/core/models/moe_gpt.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/core/models/gpt_parts.h"
#include "shardwright/core/models/models.h"
#include "shardwright/core/models/moe_mlp.h"
#include "shardwright/core/module/torch_module.h"
#include "shardwright/tests/core/models/model_builder.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::BuildModel;
using ::shardwright::testing::BuiltModel;
using ::shardwright::testing::CountingBatch;
using ::shardwright::testing::DescriptionByParameters;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::kTinyGpt;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::With;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr int64_t kEmbd = 12;

at::Tensor Random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kFloat));
}

// Biases and a router that matter: as built, biases are zero and experts nearly alike.
MoeMlp MakeMlp(int64_t n_expert, int64_t top_k, uint64_t seed = 1) {
  at::set_num_threads(1);
  MoeMlp mlp(MoeShape{.n_embd = kEmbd, .n_expert = n_expert, .top_k = top_k, .hidden = 20}, kInitialStd);
  torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : mlp->parameters()) parameter.copy_(Random(parameter.sizes(), seed++) * 0.3);
  return mlp;
}

std::map<std::string, at::Tensor> ParametersOf(MoeMlp& mlp) {
  std::map<std::string, at::Tensor> parameters;
  for (const auto& item : mlp->named_parameters()) parameters[item.key()] = item.value();
  return parameters;
}

std::map<std::string, at::Tensor> GradientsOf(const std::map<std::string, at::Tensor>& parameters) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) gradients[name] = parameter.grad().clone();
  return gradients;
}

// A router under which expert e scores x * score[e] for a token whose elements are all x.
void SetScores(MoeMlp& mlp, const std::vector<float>& scores) {
  torch::NoGradGuard no_grad;
  at::Tensor weight = ParametersOf(mlp).at("router.weight");
  for (size_t e = 0; e < scores.size(); ++e) weight[static_cast<int64_t>(e)].fill_(scores[e] / kEmbd);
}

// What one token becomes, by the definition of a mixture: no sorting, no batching.
at::Tensor ReferenceOfToken(const at::Tensor& x, std::map<std::string, at::Tensor>& p, int64_t top_k) {
  const at::Tensor probabilities = p["router.weight"].mv(x).softmax(0);
  const auto [best, experts] = probabilities.topk(top_k);
  at::Tensor y = at::zeros_like(x);
  for (int64_t i = 0; i < top_k; ++i) {
    const int64_t e = experts[i].item<int64_t>();
    const at::Tensor hidden = at::gelu(p["c_fc.weight"][e].t().mv(x) + p["c_fc.bias"][e], "tanh");
    const at::Tensor gate = top_k == 1 ? best[i] : best[i] / best.sum();
    y = y + gate * (p["c_proj.weight"][e].t().mv(hidden) + p["c_proj.bias"][e]);
  }
  return y;
}

at::Tensor Reference(const at::Tensor& x, std::map<std::string, at::Tensor> parameters, int64_t top_k) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& token : x.flatten(0, 1).unbind(0)) rows.push_back(ReferenceOfToken(token, parameters, top_k));
  return at::stack(rows).view(x.sizes());
}

TEST(MoeMlpTest, EqualsTokensTakenOneByOne) {
  for (const auto& [n_expert, top_k] : std::vector<std::pair<int64_t, int64_t>>{{4, 2}, {5, 1}, {3, 3}, {40, 2}}) {
    SCOPED_TRACE(::testing::Message() << n_expert << " experts, top " << top_k);
    MoeMlp mlp = MakeMlp(n_expert, top_k);
    const auto parameters = ParametersOf(mlp);
    at::Tensor x = Random({3, 7, kEmbd}, 70), weights = Random({3, 7, kEmbd}, 71);
    x.requires_grad_(true);
    const at::Tensor y = mlp->forward(x).x;
    (y * weights).sum().backward();
    auto gradients = GradientsOf(parameters);
    const at::Tensor gradient_of_x = x.grad().clone();

    mlp->zero_grad();
    x.mutable_grad().reset();
    const at::Tensor expected = Reference(x, parameters, top_k);
    (expected * weights).sum().backward();
    EXPECT_TRUE(y.allclose(expected, 1e-5, 1e-5));
    EXPECT_TRUE(gradient_of_x.allclose(x.grad(), 1e-4, 1e-5));
    for (const auto& [name, parameter] : parameters) {
      EXPECT_TRUE(gradients.at(name).allclose(parameter.grad(), 1e-4, 1e-5)) << name;
    }
  }
}

TEST(MoeMlpTest, ExpertsThatNoTokenChoseGetZeroGradients) {
  MoeMlp mlp = MakeMlp(5, 2);
  SetScores(mlp, {-1, 3, -1, 2, -1});
  mlp->forward(at::ones({2, 4, kEmbd})).x.sum().backward();
  for (const auto& [name, parameter] : ParametersOf(mlp)) {
    if (name == "router.weight") continue;
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_EQ(parameter.grad().sizes(), parameter.sizes());
    for (int64_t e = 0; e < 5; ++e) {
      EXPECT_EQ(parameter.grad()[e].count_nonzero().item<int64_t>() > 0, e == 1 || e == 3)
          << name << " of expert " << e;
    }
  }
}

TEST(MoeMlpTest, SameInputSameBits) {
  MoeMlp mlp = MakeMlp(4, 3);
  at::set_num_threads(2);  // and enough rows for both
  const auto run = [&] {
    mlp->zero_grad();
    at::Tensor x = Random({8, 128, kEmbd}, 72);
    x.requires_grad_(true);
    const MoeMlpImpl::Output output = mlp->forward(x);
    (output.x.sum() + output.aux_loss).backward();
    auto tensors = GradientsOf(ParametersOf(mlp));
    tensors["x"] = output.x.detach();
    tensors["aux_loss"] = output.aux_loss.detach();
    tensors["gradient of x"] = x.grad();
    return tensors;
  };
  const auto first = run(), second = run();
  at::set_num_threads(1);
  for (const auto& [name, tensor] : first) EXPECT_TRUE(tensor.equal(second.at(name))) << name;
}

TEST(MoeMlpTest, AuxiliaryLossIsOneWhereEvenAndLargestWhereCollapsed) {
  const at::Tensor x = at::ones({2, 6, kEmbd});
  const auto aux_loss = [&](int64_t top_k, const std::vector<float>& scores) {
    MoeMlp mlp = MakeMlp(static_cast<int64_t>(scores.size()), top_k);
    SetScores(mlp, scores);
    return mlp->forward(x).aux_loss.item<double>();
  };
  EXPECT_NEAR(aux_loss(2, {0, 0, 0, 0}), 1, 1e-6);
  EXPECT_NEAR(aux_loss(1, {50, 0, 0, 0}), 4, 1e-5);   // all choices, all probability: 4 * 1 * 1
  EXPECT_NEAR(aux_loss(2, {50, 0, 0, 50}), 2, 1e-5);  // halves of both on two experts: 4 * 2 * 1/4
  EXPECT_NEAR(aux_loss(2, {50, 0, 0, 0}), 2, 1e-5);   // half of the choices, all probability: 4 * 1/2 * 1
}

TEST(MoeMlpTest, AuxiliaryLossIsTheMeanOverSamplesAndTeachesTheRouterAlone) {
  MoeMlp mlp = MakeMlp(4, 2);
  const at::Tensor x = Random({3, 5, kEmbd}, 73);
  const at::Tensor aux_loss = mlp->forward(x).aux_loss;
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) sum += mlp->forward(x.narrow(0, i, 1)).aux_loss.item<double>();
  EXPECT_NEAR(aux_loss.item<double>(), sum / 3, 1e-6);
  aux_loss.backward();
  for (const auto& [name, parameter] : ParametersOf(mlp)) {
    EXPECT_EQ(parameter.grad().defined(), name == "router.weight") << name;
  }
}

// A lone gate is the probability itself; the router learns from what its choice did.
TEST(MoeMlpTest, RouterLearnsFromALoneChoice) {
  MoeMlp mlp = MakeMlp(4, 1);
  mlp->forward(Random({2, 5, kEmbd}, 74)).x.sum().backward();
  EXPECT_GT(ParametersOf(mlp).at("router.weight").grad().abs().max().item<double>(), 1e-3);
}

class Bfloat16Autocast {
 public:
  Bfloat16Autocast() { Set(true); }
  ~Bfloat16Autocast() {
    Set(false);
    at::autocast::clear_cache();
  }
  Bfloat16Autocast(const Bfloat16Autocast&) = delete;
  Bfloat16Autocast& operator=(const Bfloat16Autocast&) = delete;

 private:
  static void Set(bool enabled) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
  }
};

// Activations are float32 or bfloat16 under autocast, parameters too; the router works in float32 on what it is given.
TEST(MoeMlpTest, WorksInBfloat16) {
  MoeMlp mlp = MakeMlp(4, 2);
  const at::Tensor x = Random({3, 16, kEmbd}, 75).to(at::kBFloat16);
  {  // The same values in both dtypes, so that both route alike.
    torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : mlp->parameters()) parameter.copy_(parameter.to(at::kBFloat16));
  }
  const MoeMlpImpl::Output expected = mlp->forward(x.to(at::kFloat));
  for (const auto parameters : {at::kFloat, at::kBFloat16}) {
    mlp->to(parameters);
    for (const auto activations : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(::testing::Message() << parameters << " parameters, " << activations << " activations");
      mlp->zero_grad();
      const Bfloat16Autocast autocast;
      const MoeMlpImpl::Output output = mlp->forward(x.to(activations));
      EXPECT_EQ(output.x.scalar_type(), at::kBFloat16);
      EXPECT_EQ(output.aux_loss.scalar_type(), at::kFloat);
      EXPECT_TRUE(output.x.to(at::kFloat).allclose(expected.x, 0.05, 0.05));
      EXPECT_NEAR(output.aux_loss.item<double>(), expected.aux_loss.item<double>(), 1e-6);
      (output.x.sum() + output.aux_loss).backward();
      for (const auto& [name, parameter] : ParametersOf(mlp)) {
        EXPECT_EQ(parameter.grad().scalar_type(), parameters) << name;
        EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>()) << name;
      }
    }
  }
}

BuiltModel Build(const ModelOptions& options, uint64_t seed = 1) {
  return BuildModel(MoeGptFactory(), options, seed);
}

std::map<std::string, NamedTorchTensor> TensorsOf(BuiltModel& model) {
  std::map<std::string, NamedTorchTensor> tensors;
  for (NamedTorchTensor& named : NamedTensors(model.torch())) tensors[named.meta.name] = std::move(named);
  return tensors;
}

TEST(MoeGptOptionsTest, IsInTheTableWithGptsOptionsAndItsOwn) {
  SW_ASSERT_OK_AND_ASSIGN(const ModelFactory factory, BuiltinModels().Find("moe_gpt"));
  EXPECT_EQ(factory.defaults.at("n_layer"), "4");
  EXPECT_EQ(factory.defaults.at("n_expert"), "4");
  EXPECT_EQ(factory.defaults.at("top_k"), "2");
  EXPECT_EQ(factory.defaults.at("expert_hidden"), "0");
  EXPECT_EQ(factory.defaults.at("aux_loss_weight"), "0.01");
  EXPECT_THAT(factory.make(factory.defaults), IsOk());
}

TEST(MoeGptOptionsTest, RefusesUnknownAndBadOptions) {
  const auto make = [](const ModelOptions& options) { return MoeGptFactory().make(options).status(); };
  EXPECT_THAT(make({{"n_experts", "4"}}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("model moe_gpt"), HasSubstr("\"n_expert\""))));
  EXPECT_THAT(make({{"n_expert", "0"}}), StatusIs(kInvalidArgument, HasSubstr("n_expert is \"0\"")));
  EXPECT_THAT(make({{"top_k", "0"}}), StatusIs(kInvalidArgument, HasSubstr("top_k is \"0\"")));
  EXPECT_THAT(make({{"top_k", "5"}}),
              StatusIs(kInvalidArgument, HasSubstr("a token cannot go to top_k 5 of n_expert 4 experts")));
  EXPECT_THAT(make({{"expert_hidden", "-1"}}), StatusIs(kInvalidArgument, HasSubstr("expert_hidden is \"-1\"")));
  EXPECT_THAT(make({{"aux_loss_weight", "nan"}}), StatusIs(kInvalidArgument, HasSubstr("aux_loss_weight is \"nan\"")));
  EXPECT_THAT(make({{"n_head", "3"}}), StatusIs(kInvalidArgument, HasSubstr("n_embd 128 is not a multiple")));
  EXPECT_THAT(make({{"n_expert", "3"}, {"top_k", "3"}}), IsOk());
}

TEST(MoeGptTest, StartsAsUniformOverBytes) {
  BuiltModel model = Build(With(kTinyGpt, {{"aux_loss_weight", "0"}}));
  EXPECT_NEAR(model.torch().TrainingStep(CountingBatch(4, 9)).item<double>(), std::log(256.0), 0.1);
}

TEST(MoeGptTest, DescribesItselfByTheParametersThatItBuilds) {
  for (const ModelOptions& options :
       {ModelOptions{}, ModelOptions{{"tie_weights", "false"}, {"n_expert", "7"}, {"expert_hidden", "100"}}}) {
    BuiltModel model = Build(options);
    EXPECT_EQ(model.module->Describe(), DescriptionByParameters(model, "moe_gpt"));
  }
}

TEST(MoeGptTest, ExpertsAreStackedAlongDimZeroInEveryLayer) {
  BuiltModel model = Build(With(kTinyGpt, {{"n_expert", "3"}, {"expert_hidden", "24"}}));
  auto tensors = TensorsOf(model);
  for (const std::string layer : {"h.0.mlp.", "h.1.mlp."}) {
    EXPECT_THAT(tensors.at(layer + "router.weight").meta.shape, ElementsAre(3, 16));
    EXPECT_THAT(tensors.at(layer + "c_fc.weight").meta.shape, ElementsAre(3, 16, 24));
    EXPECT_THAT(tensors.at(layer + "c_fc.bias").meta.shape, ElementsAre(3, 24));
    EXPECT_THAT(tensors.at(layer + "c_proj.weight").meta.shape, ElementsAre(3, 24, 16));
    EXPECT_THAT(tensors.at(layer + "c_proj.bias").meta.shape, ElementsAre(3, 16));
  }
  EXPECT_EQ(tensors.at("lm_head.weight").alias_of, "wte.weight");
  BuiltModel wide = Build(kTinyGpt);
  EXPECT_THAT(TensorsOf(wide).at("h.0.mlp.c_fc.weight").meta.shape, ElementsAre(4, 16, 64));
}

TEST(MoeGptTest, ResidualProjectionsStartSmaller) {
  BuiltModel model = Build({{"n_layer", "8"}});
  auto tensors = TensorsOf(model);
  EXPECT_NEAR(tensors.at("h.3.mlp.c_fc.weight").tensor.std().item<double>(), 0.02, 0.001);
  EXPECT_NEAR(tensors.at("h.3.mlp.c_proj.weight").tensor.std().item<double>(), 0.02 / 4, 0.0005);
  EXPECT_NEAR(tensors.at("h.3.mlp.router.weight").tensor.std().item<double>(), 0.02, 0.002);
  EXPECT_EQ(tensors.at("h.3.mlp.c_fc.bias").tensor.count_nonzero().item<int64_t>(), 0);
}

TEST(MoeGptTest, OnlyMatricesDecay) {
  BuiltModel model = Build(With(kTinyGpt, {{"weight_decay", "0.25"}}));
  const OptimizerSpec spec = model.torch().ConfigureOptimizers();
  ASSERT_EQ(spec.groups.size(), 2u);
  EXPECT_EQ(spec.groups[0].hyperparameters.weight_decay, 0.25);
  EXPECT_EQ(spec.groups[1].hyperparameters.weight_decay, 0);
  EXPECT_THAT(spec.groups[0].parameters, AllOf(Contains("h.0.mlp.c_fc.weight"), Contains("h.1.mlp.c_proj.weight"),
                                               Contains("h.0.mlp.router.weight"), Contains("h.0.attn.c_attn.weight")));
  EXPECT_THAT(spec.groups[0].parameters, AllOf(Not(Contains("h.0.mlp.c_fc.bias")), Not(Contains("h.0.mlp.c_proj.bias")),
                                               Not(Contains("wte.weight")), Not(Contains("h.0.ln_1.weight"))));
  std::vector<std::string> trainable;
  for (const auto& [name, named] : TensorsOf(model)) {
    if (named.alias_of.empty()) trainable.push_back(name);
  }
  EXPECT_THAT(ValidateOptimizerSpec(spec, trainable), IsOk());
}

TEST(MoeGptTest, LossIsCrossEntropyPlusWeighedAuxiliaryLoss) {
  const Batch batch = CountingBatch(4, 9);
  BuiltModel model = Build(With(kTinyGpt, {{"aux_loss_weight", "0.5"}}));
  const double loss = model.torch().TrainingStep(batch).item<double>();
  const std::map<std::string, double> metrics = model.torch().ValidationStep(batch);
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_NEAR(metrics.at("val_loss"), std::log(256.0), 0.1);
  EXPECT_GT(metrics.at("aux_loss"), 0.9);
  EXPECT_LT(metrics.at("aux_loss"), 2.0);
  EXPECT_NEAR(loss, metrics.at("val_loss") + 0.5 * metrics.at("aux_loss"), 1e-5);
}

// What ranks and micro-batches rely on.
TEST(MoeGptTest, LossOfABatchIsTheMeanOfItsSamples) {
  BuiltModel model = Build(With(kTinyGpt, {{"aux_loss_weight", "1"}}));
  const Batch whole = CountingBatch(3, 9);
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const Batch one{
        .samples = 1, .sample_tokens = 9, .tokens = {whole.tokens.begin() + i * 9, whole.tokens.begin() + (i + 1) * 9}};
    sum += model.torch().TrainingStep(one).item<double>();
  }
  EXPECT_NEAR(model.torch().TrainingStep(whole).item<double>(), sum / 3, 1e-5);
}

TEST(MoeGptTest, SameSeedSameBitsOfEveryGradient) {
  const auto gradients = [](uint64_t seed) {
    BuiltModel model = Build(kTinyGpt, seed);
    model.torch().TrainingStep(CountingBatch(4, 9)).backward();
    std::map<std::string, at::Tensor> result;
    for (const auto& [name, named] : TensorsOf(model)) result[name] = named.tensor.grad();
    return result;
  };
  const auto first = gradients(5), second = gradients(5), other = gradients(6);
  for (const auto& [name, gradient] : first) {
    ASSERT_TRUE(gradient.defined()) << name;
    EXPECT_TRUE(gradient.equal(second.at(name))) << name;
  }
  EXPECT_FALSE(first.at("wte.weight").equal(other.at("wte.weight")));
}

struct CountingHooks : UnitHooks {
  void PostForward(int unit, std::vector<at::Tensor>& outputs) override {
    for (const at::Tensor& output : outputs) shapes.emplace_back(unit, output.dim());
  }
  std::vector<std::pair<int, int64_t>> shapes;
};

TEST(MoeGptTest, EveryBlockIsAUnitAndBothItsOutputsPassTheHooks) {
  auto hooks = std::make_unique<CountingHooks>();
  CountingHooks& counting = *hooks;
  BuiltModel model = BuildModel(MoeGptFactory(), kTinyGpt, 1, std::move(hooks));
  model.torch().TrainingStep(CountingBatch(1, 9));
  using Shape = std::pair<int, int64_t>;  // unit, dimensions
  EXPECT_THAT(counting.shapes, ElementsAre(Shape{0, 3}, Shape{0, 0}, Shape{1, 3}, Shape{1, 0}));
}

TEST(MoeGptTest, GenerationContinuesThePromptPastTheContextByItsOwnSeed) {
  BuiltModel model = Build(kTinyGpt);
  const std::vector<int32_t> prompt = {10, 20, 30};
  SW_ASSERT_OK_AND_ASSIGN(const auto text, model.module->Generate(prompt, 20, 1.0, 3));
  ASSERT_EQ(text.size(), 23u);
  EXPECT_THAT(std::vector<int32_t>(text.begin(), text.begin() + 3), ElementsAreArray(prompt));
  SW_ASSERT_OK_AND_ASSIGN(const auto again, model.module->Generate(prompt, 20, 1.0, 3));
  SW_ASSERT_OK_AND_ASSIGN(const auto other, model.module->Generate(prompt, 20, 1.0, 4));
  EXPECT_EQ(text, again);
  EXPECT_NE(text, other);
  EXPECT_TRUE(model.torch().is_training()) << "generating leaves the mode as it was";
}

TEST(MoeGptTest, BadInputIsRefused) {
  BuiltModel model = Build(kTinyGpt);
  EXPECT_THAT(model.module->Generate({}, 3, 0, 0).status(), StatusIs(kInvalidArgument, HasSubstr("prompt is empty")));
  EXPECT_THROW(model.torch().TrainingStep(CountingBatch(1, 20)), c10::Error);
}

}  // namespace
}  // namespace shardwright
