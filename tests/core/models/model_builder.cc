#include "shardwright/tests/core/models/model_builder.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_format.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {

const ModelOptions kTinyGpt = {{"n_layer", "2"}, {"n_head", "2"}, {"n_embd", "16"}, {"context", "8"}};

ModelOptions With(ModelOptions options, const ModelOptions& more) {
  for (const auto& [name, value] : more) options[name] = value;
  return options;
}

BuiltModel BuildModel(const ModelFactory& factory, const ModelOptions& options, uint64_t seed,
                      std::unique_ptr<UnitHooks> hooks) {
  at::set_num_threads(1);  // tiny tensors: more threads would only wait for each other
  BuiltModel built;
  auto module = factory.make(options);
  EXPECT_THAT(module, IsOk());
  built.module = *std::move(module);
  built.hooks = std::move(hooks);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(seed);
  Units units(*built.hooks);
  built.torch().ConfigureShardedModel(units);
  return built;
}

std::string DescriptionByParameters(BuiltModel& model, const std::string& name) {
  int64_t parameters = 0;
  for (const NamedTorchTensor& named : NamedTensors(model.torch())) {
    if (named.alias_of.empty()) parameters += named.meta.elements();
  }
  return absl::StrFormat("%s %.1fM", name, static_cast<double>(parameters) / 1e6);
}

Batch CountingBatch(int64_t samples, int64_t sample_tokens) {
  Batch batch{.samples = samples, .sample_tokens = sample_tokens, .tokens = {}};
  for (int64_t i = 0; i < samples * sample_tokens; ++i) {
    batch.tokens.push_back(static_cast<int32_t>((i % sample_tokens + 7 * (i / sample_tokens)) % 256));
  }
  return batch;
}

}  // namespace shardwright::testing
