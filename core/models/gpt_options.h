// What the GPTs of this folder are told from outside: shape, optimizer, schedule.
//
//   OptionReader options("gpt", given, GptDefaults());
//   GptConfig config = ReadGptOptions(options);
//   SW_RETURN_IF_ERROR(options.status());
#ifndef SHARDWRIGHT_CORE_MODELS_GPT_OPTIONS_H_
#define SHARDWRIGHT_CORE_MODELS_GPT_OPTIONS_H_

#include <cstdint>

#include "shardwright/core/models/option_reader.h"
#include "shardwright/core/module/module.h"
#include "shardwright/core/module/optimizer_spec.h"

namespace shardwright {

struct GptConfig {
  int64_t n_layer = 0;
  int64_t n_head = 0;
  int64_t n_embd = 0;  // a multiple of n_head
  int64_t context = 0;
  bool tie_weights = false;  // the output layer shares the token embedding
  double dropout = 0;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  OptimizerHyperparameters hyperparameters;
  LearningRateSchedule schedule;
};

// Every option of GptConfig with its default. A model with options of its own adds them.
ModelOptions GptDefaults();

// Problems are left to `options`; its status says whether the result can be used.
GptConfig ReadGptOptions(OptionReader& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODELS_GPT_OPTIONS_H_
