// A small module with everything that strategies must get right: tied, frozen and unused parameters, a running buffer,
// an empty parameter, scalars, hooks that count.
#ifndef SHARDWRIGHT_TESTS_CONFORMANCE_STRATEGY_TOY_MODULE_H_
#define SHARDWRIGHT_TESTS_CONFORMANCE_STRATEGY_TOY_MODULE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shardwright/core/module/module.h"
#include "shardwright/core/module/optimizer_spec.h"

namespace shardwright::testing {

struct ToyOptions {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  OptimizerHyperparameters hyperparameters = {.learning_rate = 0.01, .weight_decay = 0.1};
  bool tied = true;
  std::string hidden_name = "hidden";  // of a layer
  int64_t hidden_rows = 5;
  bool extra_parameter = false;
  double dropout = 0;
  // The module's hooks.
  std::function<absl::Status(LoadView& view)> on_load;
  std::function<absl::Status(Value::Map& extras)> on_save;
  std::shared_ptr<bool> poison;  // true: the loss is not a number
};

inline constexpr int64_t kToyTokens = 4;  // of a sample
inline constexpr int64_t kToyVocabulary = 11;

std::unique_ptr<Module> MakeToyModule(const ToyOptions& options);

// `samples` samples of the run's sequence, from number `first` on.
Batch ToyBatch(int64_t first, int64_t samples);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_CONFORMANCE_STRATEGY_TOY_MODULE_H_
