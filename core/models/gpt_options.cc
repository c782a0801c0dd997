#include "shardwright/core/models/gpt_options.h"

#include "absl/strings/str_format.h"

namespace shardwright {
namespace {

void ReadOptimizer(OptionReader& options, GptConfig& config) {
  const auto optimizer = ParseOptimizerKind(options.Text("optimizer"));
  if (optimizer.ok()) {
    config.optimizer = *optimizer;
  } else {
    options.AddProblem(optimizer.status().message());
  }
  config.hyperparameters.learning_rate = options.Double("learning_rate", 0, 1e3);
  config.hyperparameters.weight_decay = options.Double("weight_decay", 0, 1e3);
  config.hyperparameters.beta1 = options.Double("beta1", 0, 0.999999);
  config.hyperparameters.beta2 = options.Double("beta2", 0, 0.999999);
  config.hyperparameters.momentum = options.Double("momentum", 0, 0.999999);
}

void ReadSchedule(OptionReader& options, LearningRateSchedule& schedule) {
  const auto kind = ParseScheduleKind(options.Text("schedule"));
  if (kind.ok()) {
    schedule.kind = *kind;
  } else {
    options.AddProblem(kind.status().message());
  }
  schedule.warmup_steps = options.Int("warmup_steps", 0, int64_t{1} << 40);
  schedule.total_steps = options.Int("total_steps", 0, int64_t{1} << 40);
}

}  // namespace

ModelOptions GptDefaults() {
  return {
      // Shape.
      {"n_layer", "4"},
      {"n_head", "4"},
      {"n_embd", "128"},
      {"context", "128"},
      {"tie_weights", "true"},
      {"dropout", "0"},
      // Optimizer.
      {"optimizer", "adamw"},
      {"learning_rate", "1e-3"},
      {"weight_decay", "0.1"},
      {"beta1", "0.9"},
      {"beta2", "0.95"},
      {"momentum", "0.9"},  // sgd
      // Schedule.
      {"schedule", "cosine"},
      {"warmup_steps", "0"},
      {"total_steps", "0"},  // 0: the rate does not decay
  };
}

GptConfig ReadGptOptions(OptionReader& options) {
  GptConfig config;
  config.n_layer = options.Int("n_layer", 1, 1000);
  config.n_head = options.Int("n_head", 1, 1024);
  config.n_embd = options.Int("n_embd", 1, 1 << 16);
  config.context = options.Int("context", 1, 1 << 20);
  config.tie_weights = options.Bool("tie_weights");
  config.dropout = options.Double("dropout", 0, 0.99);
  ReadOptimizer(options, config);
  ReadSchedule(options, config.schedule);
  if (config.n_embd % config.n_head != 0) {
    options.AddProblem(absl::StrFormat("n_embd %d is not a multiple of n_head %d", config.n_embd, config.n_head));
  }
  return config;
}

}  // namespace shardwright
