#include "shardwright/core/models/gpt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/core/models/models.h"
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
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

BuiltModel Build(const ModelOptions& options, uint64_t seed = 1) {
  return BuildModel(GptFactory(), options, seed);
}

TEST(GptOptionsTest, IsInTheTableWithItsDefaults) {
  SW_ASSERT_OK_AND_ASSIGN(const ModelFactory factory, BuiltinModels().Find("gpt"));
  EXPECT_EQ(factory.defaults.at("n_layer"), "4");
  EXPECT_EQ(factory.defaults.at("learning_rate"), "1e-3");
  EXPECT_EQ(factory.defaults.at("tie_weights"), "true");
  EXPECT_THAT(factory.make(factory.defaults), IsOk());
}

TEST(GptOptionsTest, RefusesUnknownAndBadOptions) {
  const auto make = [](const ModelOptions& options) { return GptFactory().make(options).status(); };
  EXPECT_THAT(make({{"n_layers", "4"}}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("n_layers"), HasSubstr("\"n_layer\""))));
  EXPECT_THAT(make({{"n_head", "3"}}),
              StatusIs(kInvalidArgument, HasSubstr("n_embd 128 is not a multiple of n_head 3")));
  EXPECT_THAT(make({{"n_layer", "0"}}), StatusIs(kInvalidArgument, HasSubstr("n_layer is \"0\"")));
  EXPECT_THAT(make({{"dropout", "1"}}), StatusIs(kInvalidArgument, HasSubstr("dropout")));
  EXPECT_THAT(make({{"optimizer", "adamv"}, {"schedule", "cosin"}}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("\"adamv\""), HasSubstr("\"cosine\""))));
}

TEST(GptTest, StartsAsUniformOverBytes) {
  BuiltModel gpt = Build(kTinyGpt);
  const double loss = gpt.torch().TrainingStep(CountingBatch(4, 9)).item<double>();
  EXPECT_NEAR(loss, std::log(256.0), 0.1);
}

TEST(GptTest, DescribesItselfByTheParametersThatItBuilds) {
  for (const char* tied : {"true", "false"}) {
    BuiltModel gpt = Build({{"tie_weights", tied}});
    EXPECT_EQ(gpt.module->Describe(), DescriptionByParameters(gpt, "gpt"));
  }
}

TEST(GptTest, NamesAreThoseOfGpt2AndTheHeadIsTiedByOption) {
  for (const bool tied : {true, false}) {
    BuiltModel gpt = Build(With(kTinyGpt, {{"tie_weights", tied ? "true" : "false"}}));
    std::map<std::string, std::string> alias_of;
    for (const NamedTorchTensor& named : NamedTensors(gpt.torch())) alias_of[named.meta.name] = named.alias_of;
    EXPECT_EQ(alias_of.at("lm_head.weight"), tied ? "wte.weight" : "");
    EXPECT_EQ(alias_of.count("h.1.attn.c_attn.weight"), 1u);
    EXPECT_EQ(alias_of.count("h.0.mlp.c_proj.bias"), 1u);
    EXPECT_EQ(alias_of.count("ln_f.weight"), 1u);
  }
}

TEST(GptTest, OnlyMatricesDecay) {
  BuiltModel gpt = Build(With(kTinyGpt, {{"weight_decay", "0.25"}, {"tie_weights", "false"}}));
  const OptimizerSpec spec = gpt.torch().ConfigureOptimizers();
  ASSERT_EQ(spec.groups.size(), 2u);
  EXPECT_EQ(spec.groups[0].hyperparameters.weight_decay, 0.25);
  EXPECT_EQ(spec.groups[1].hyperparameters.weight_decay, 0);
  EXPECT_THAT(
      spec.groups[0].parameters,
      AllOf(Contains("h.0.attn.c_attn.weight"), Contains("lm_head.weight"), Not(Contains("wte.weight")),
            Not(Contains("wpe.weight")), Not(Contains("h.0.ln_1.weight")), Not(Contains("h.0.attn.c_attn.bias"))));
  std::vector<std::string> trainable;
  for (const NamedTorchTensor& named : NamedTensors(gpt.torch())) {
    if (named.alias_of.empty()) trainable.push_back(named.meta.name);
  }
  EXPECT_THAT(ValidateOptimizerSpec(spec, trainable), IsOk());
}

TEST(GptTest, SameSeedSameParameters) {
  BuiltModel a = Build(kTinyGpt, 5), b = Build(kTinyGpt, 5), c = Build(kTinyGpt, 6);
  const auto of_a = NamedTensors(a.torch()), of_b = NamedTensors(b.torch()), of_c = NamedTensors(c.torch());
  for (size_t i = 0; i < of_a.size(); ++i) EXPECT_TRUE(of_a[i].tensor.equal(of_b[i].tensor)) << of_a[i].meta.name;
  EXPECT_FALSE(of_a[0].tensor.equal(of_c[0].tensor));
}

TEST(GptTest, ResidualProjectionsStartSmaller) {
  BuiltModel gpt = Build({{"n_layer", "8"}});
  std::map<std::string, double> std;
  for (const NamedTorchTensor& named : NamedTensors(gpt.torch()))
    std[named.meta.name] = named.tensor.std().item<double>();
  EXPECT_NEAR(std.at("h.3.mlp.c_fc.weight"), 0.02, 0.001);
  EXPECT_NEAR(std.at("h.3.mlp.c_proj.weight"), 0.02 / 4, 0.0005);
  EXPECT_NEAR(std.at("h.3.attn.c_proj.weight"), 0.02 / 4, 0.0005);
}

TEST(GptTest, APredictionDoesNotSeeWhatFollows) {
  BuiltModel gpt = Build(kTinyGpt);
  const auto sum_of_losses = [&](std::vector<int32_t> tokens) {
    const auto length = static_cast<int64_t>(tokens.size());
    const Batch batch{.samples = 1, .sample_tokens = length, .tokens = std::move(tokens)};
    return gpt.torch().TrainingStep(batch).item<double>() * static_cast<double>(length - 1);
  };
  // The probabilities of what follows "5 9 200" sum to 1 only if 200, as an input, left the losses before it alone.
  const double before = sum_of_losses({5, 9, 200});
  double probability = 0;
  for (int32_t next = 0; next < 256; ++next) probability += std::exp(before - sum_of_losses({5, 9, 200, next}));
  EXPECT_NEAR(probability, 1, 1e-4);
}

TEST(GptTest, GenerationContinuesThePromptPastTheContext) {
  BuiltModel gpt = Build(kTinyGpt);
  const std::vector<int32_t> prompt = {10, 20, 30};
  SW_ASSERT_OK_AND_ASSIGN(const auto text, gpt.module->Generate(prompt, 20, 0, 0));
  ASSERT_EQ(text.size(), 23u);
  EXPECT_THAT(std::vector<int32_t>(text.begin(), text.begin() + 3), ElementsAreArray(prompt));
  for (const int32_t token : text) EXPECT_TRUE(token >= 0 && token < 256);
  EXPECT_TRUE(gpt.torch().is_training()) << "generating leaves the mode as it was";
}

TEST(GptTest, SamplingFollowsItsOwnSeedAlone) {
  BuiltModel gpt = Build(kTinyGpt);
  SW_ASSERT_OK_AND_ASSIGN(const auto first, gpt.module->Generate({65}, 30, 1.0, 3));
  SW_ASSERT_OK_AND_ASSIGN(const auto again, gpt.module->Generate({65}, 30, 1.0, 3));
  SW_ASSERT_OK_AND_ASSIGN(const auto other, gpt.module->Generate({65}, 30, 1.0, 4));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(GptTest, BadInputIsRefused) {
  BuiltModel gpt = Build(kTinyGpt);
  EXPECT_THAT(gpt.module->Generate({}, 3, 0, 0).status(), StatusIs(kInvalidArgument, HasSubstr("prompt is empty")));
  EXPECT_THAT(gpt.module->Generate({1000}, 3, 0, 0).status(), StatusIs(kInvalidArgument));
  EXPECT_TRUE(gpt.torch().is_training());
  EXPECT_THROW(gpt.torch().TrainingStep(CountingBatch(1, 20)), c10::Error);
  Batch torn = CountingBatch(2, 9);
  torn.tokens.pop_back();
  EXPECT_THROW(gpt.torch().TrainingStep(torn), c10::Error);
}

}  // namespace
}  // namespace shardwright
