// What tests of models share: a model built as a strategy would, and batches that are easy to predict.
#ifndef SHARDWRIGHT_TESTS_CORE_MODELS_MODEL_BUILDER_H_
#define SHARDWRIGHT_TESTS_CORE_MODELS_MODEL_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "shardwright/core/module/torch_module.h"
#include "shardwright/core/module/units.h"

namespace shardwright::testing {

// Two layers of two heads, 16 wide, over 8 tokens.
extern const ModelOptions kTinyGpt;
ModelOptions With(ModelOptions options, const ModelOptions& more);

struct BuiltModel {
  std::unique_ptr<Module> module;
  std::unique_ptr<UnitHooks> hooks;
  TorchModule& torch() { return AsTorchModule(*module); }
};
// Fails the test if the factory does. One torch thread.
BuiltModel BuildModel(const ModelFactory& factory, const ModelOptions& options, uint64_t seed = 1,
                      std::unique_ptr<UnitHooks> hooks = std::make_unique<UnitHooks>());

// "gpt 0.8M", from the parameters that the model really has.
std::string DescriptionByParameters(BuiltModel& model, const std::string& name);

// Samples in which each byte follows from the one before.
Batch CountingBatch(int64_t samples, int64_t sample_tokens);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_CORE_MODELS_MODEL_BUILDER_H_
